"""Client of the Hub's REST API, for the service's own requests."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from jupyterhub.utils import make_ssl_context
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest, HTTPResponse
from traitlets import Float, Unicode, default
from traitlets.config import LoggingConfigurable

from .errors import (
    ConfigurationError,
    Conflict,
    HubUnavailable,
    InvalidRequest,
    NotAllowed,
    NotFound,
    PortalError,
    SlurmRefused,
    SlurmUnavailable,
    StartFailed,
    TooManyRequests,
    Unavailable,
)
from .launch.fields import FIELD_HEADER
from .logs.request import PASSED_ON
from .models.session.stop_reason import REASON_HEADER, StopReason

FOR_HEADER = "X-Portal-For"
PROMPT_HEADER = "X-Portal-Prompt"
_NO_HEADERS: Mapping[str, str] = {}
# Errors of refused launches and moves; the reason of the Hub's response is the error's code.
_OF_LAUNCHES: Mapping[str, type[PortalError]] = {
    kind.code: kind
    for kind in (
        Conflict,
        InvalidRequest,
        NotAllowed,
        NotFound,
        SlurmRefused,
        SlurmUnavailable,
        StartFailed,
        Unavailable,
    )
}
# Refusals of a user whose login was refreshed in vain, by JupyterHub (handlers/base.py) and by
# its login. Any other 403 is about the service's own token.
_OF_USERS = ("auth has expired", "is no longer allowed")
_PER_QUESTION = 50  # people per request, since their names are in its URL
_AT_ONCE = 50  # requests; with tornado's default, 10, others wait behind slow stops


class HubApi(LoggingConfigurable):
    """Client of the Hub with the service's token (JUPYTERHUB_API_TOKEN), with the rights of
    the role in deploy/jupyterhub_config.d/30-roles.py."""

    api_url = Unicode()

    api_token = Unicode()

    timeout = Float(30.0)  # seconds; a stop is answered after 10 (slow_stop_timeout)

    @default("api_url")
    def _default_api_url(self) -> str:
        return os.environ.get("JUPYTERHUB_API_URL", "http://127.0.0.1:8081/hub/api")

    @default("api_token")
    def _default_api_token(self) -> str:
        return os.environ.get("JUPYTERHUB_API_TOKEN", "")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._client = AsyncHTTPClient(force_instance=True, max_clients=_AT_ONCE)
        # With internal_ssl the Hub asks for a certificate of its own authority, as HubAuth sends.
        key, certificate, authority = (
            os.environ.get(f"JUPYTERHUB_SSL_{name}", "")
            for name in ("KEYFILE", "CERTFILE", "CLIENT_CA")
        )
        self._ssl = (
            make_ssl_context(key, certificate, cafile=authority) if key and certificate else None
        )

    async def stop_server(
        self, user: str, server: str, *, on_behalf_of: str = "", reason: StopReason | None = None
    ) -> None:
        """Ask the Hub to stop one server ("": the default one), which may still be stopping then.

        The Hub records ``on_behalf_of`` as the person who stopped it; "" is the service itself,
        for which ``reason`` is how the session ended. A person's is a StopCode.STOPPED.
        Raises NotFound for a server that does not exist or does not run, Conflict if the Hub
        cannot do it now, HubUnavailable, ConfigurationError if the service's role lacks a scope.
        """
        # The Hub also accepts to stop a server that does not run.
        if not await self.runs(user, server):
            raise NotFound("No such server is running.")
        headers = {FOR_HEADER: header_of(on_behalf_of)} if on_behalf_of else {}
        if reason is not None:
            headers[REASON_HEADER] = reason.header()
        await self._ask("DELETE", _path(user, server), "delete:servers", headers)

    async def start_server(self, user: str, server: str, options: Mapping[str, Any]) -> None:
        """Ask the Hub to start a named server with these ``user_options``, checked like its
        owner's own launch; it may still be starting then.

        Raises the error of a refused launch (InvalidRequest, NotAllowed, SlurmUnavailable…) with
        its message; Conflict for a server that runs or starts; otherwise as ``stop_server``.
        """
        with contextlib.suppress(NotFound):
            if await self.runs(user, server):
                raise Conflict("It is already running. Open it or stop it on the Sessions page.")
        body = json.dumps({"user_options": options})
        await self._ask("POST", _path(user, server), "start:servers", body=body)

    async def runs(self, user: str, server: str) -> bool:
        """Return True if this server runs, starts or stops. Raises NotFound for one that never
        existed."""
        model = _json(await self._ask("GET", _path(user, server), "read:servers"))
        return bool(model.get("ready") or model.get("pending"))

    async def server_state(self, user: str, server: str) -> str:
        """Return the state of a server: "starting", "stopping", "ready"; "" for one that does not
        run or does not exist."""
        try:
            model = _json(await self._ask("GET", _path(user, server), "read:servers"))
        except NotFound:
            return ""
        pending = {"spawn": "starting", "stop": "stopping"}.get(str(model.get("pending")), "")
        return pending or ("ready" if model.get("ready") else "")

    async def named_servers(self, user: str) -> dict[str, str]:
        """Return the named servers that ``user`` has, whether or not they run: titles by name.

        Raises NotFound for someone the Hub does not know, HubUnavailable, ConfigurationError.
        """
        path = f"users/{quote(user, safe='')}?include_stopped_servers=1"
        servers = _json(await self._ask("GET", path, "read:servers")).get("servers")
        rows = servers if isinstance(servers, dict) else {}
        return {name: str(row.get("display_name") or name) for name, row in rows.items() if name}

    async def remove_server(self, user: str, server: str, *, on_behalf_of: str) -> None:
        """Have the Hub forget a named server that does not run.

        Raises NotFound for one that it does not have, Conflict for one that runs; otherwise as
        ``stop_server``.
        """
        if await self.runs(user, server):
            raise Conflict(
                "This session is running or starting. Stop it before you remove its name."
            )
        headers = {FOR_HEADER: header_of(on_behalf_of)}
        body = json.dumps({"remove": True})
        await self._ask("DELETE", _path(user, server), "delete:servers", headers, body)

    async def begin_server(self, user: str, server: str, options: Mapping[str, Any]) -> None:
        """Start a server of a class, without a check of its state before; return once Slurm has
        the job. One that starts already is left alone.

        Raises Conflict for one that runs; TooManyRequests and Unavailable if the Hub or Slurm is
        to be asked later, with ``details["retry_after"]`` in seconds if they say when.
        """
        body = json.dumps({"user_options": dict(options)})
        headers = {PROMPT_HEADER: "1"}
        await self._ask("POST", _path(user, server), "start:servers", headers, body)

    async def servers(self, server: str, people: Collection[str]) -> dict[str, str]:
        """Return the state of each person's server of this name: "ready", "pending", "" for none.
        People unknown to the Hub are left out. A single request for all. Raises HubUnavailable."""
        body = json.dumps({"server": server, "people": list(people)})
        states = _json(await self._ask("POST", "portal/servers", "", body=body)).get("servers")
        return states if isinstance(states, dict) else {}

    async def make_people(self, names: Collection[str]) -> dict[str, str]:
        """Make these people known to the Hub, as if they had logged in; return why some were
        refused, in words, by name. Raises HubUnavailable."""
        body = json.dumps({"people": list(names)})
        reasons = _json(await self._ask("POST", "portal/people", "", body=body)).get("refused")
        return reasons if isinstance(reasons, dict) else {}

    async def people(self, names: Collection[str]) -> dict[str, dict[str, Any]]:
        """Return those of ``names`` whom the Hub knows, each with "teaches", whether its roles let
        them teach, and "mail", the address from their login. Raises HubUnavailable."""
        people: dict[str, dict[str, Any]] = {}
        wanted = sorted(set(names))
        for at in range(0, len(wanted), _PER_QUESTION):
            query = urlencode([("name", name) for name in wanted[at : at + _PER_QUESTION]])
            known = _json(await self._ask("GET", f"portal/people?{query}", "")).get("people")
            people |= known if isinstance(known, dict) else {}
        return people

    async def may_log_in(self, user: str) -> bool:
        """Return False if the Hub does not know this user, or its authenticator would refuse them
        for sure. Raises HubUnavailable."""
        query = urlencode({"name": user, "login": "1"})
        known = _json(await self._ask("GET", f"portal/people?{query}", "")).get("people")
        facts = known.get(user) if isinstance(known, dict) else None
        return isinstance(facts, dict) and facts.get("may_log_in") is not False

    async def people_of(self, group: str) -> tuple[str, ...]:
        """Return the names of a Hub group's members. Raises NotFound, HubUnavailable."""
        query = urlencode({"group": group})
        members = _json(await self._ask("GET", f"portal/people?{query}", "")).get("people")
        return tuple(str(name) for name in members) if isinstance(members, dict) else ()

    async def users(self, query: Mapping[str, Any], *, on_behalf_of: str) -> dict[str, Any]:
        """Return a page of the users that the Hub knows, as spawners/api/users.py describes it.
        Raises HubUnavailable."""
        headers = {FOR_HEADER: header_of(on_behalf_of)}
        return _json(await self._ask("GET", f"portal/users?{urlencode(query)}", "", headers))

    async def set_admin(self, user: str, admin: bool, *, on_behalf_of: str) -> None:
        """Make a user an admin of the Hub, or no longer one.

        Raises NotFound for an unknown user, NotAllowed if ``on_behalf_of`` may not do this,
        Conflict for oneself, HubUnavailable.
        """
        headers = {FOR_HEADER: header_of(on_behalf_of)}
        body = json.dumps({"admin": admin})
        await self._ask("PATCH", f"portal/users/{quote(user, safe='')}", "", headers, body)

    async def delete_user(self, user: str, *, on_behalf_of: str) -> None:
        """Have the Hub forget a user. Raises Conflict while sessions of the user run; otherwise as
        ``set_admin``."""
        headers = {FOR_HEADER: header_of(on_behalf_of)}
        await self._ask("DELETE", f"portal/users/{quote(user, safe='')}", "", headers)

    async def moves(self) -> list[dict[str, Any]]:
        """Return the moves of sessions that are under way or were a moment ago, each with
        "session", its id, and "move". Raises HubUnavailable."""
        moves = _json(await self._ask("GET", "portal/moves", "")).get("moves")
        return moves if isinstance(moves, list) else []

    async def move(self, user: str, server: str) -> dict[str, Any]:
        """Return a server's "move" and "busy" kernels. Raises NotFound, HubUnavailable."""
        return _json(await self._ask("GET", _move_path(user, server), ""))

    async def begin_move(
        self, user: str, server: str, options: Mapping[str, Any], *, on_behalf_of: str
    ) -> dict[str, Any]:
        """Queue a job with these ``user_options`` to take this server's place; return the move.

        Raises the error of a refused launch with its message, Conflict if this server cannot move
        now, NotFound, HubUnavailable.
        """
        headers = {FOR_HEADER: header_of(on_behalf_of)}
        path, body = _move_path(user, server), json.dumps(dict(options))
        return _json(await self._ask("POST", path, "", headers, body))

    async def cancel_move(self, user: str, server: str, *, on_behalf_of: str) -> dict[str, Any]:
        """Cancel a move. Raises Conflict if there is none, NotFound, HubUnavailable."""
        headers = {FOR_HEADER: header_of(on_behalf_of)}
        return _json(await self._ask("DELETE", _move_path(user, server), "", headers))

    async def share(self, user: str, server: str, person: str) -> str:
        """Share one server of a space with ``person``, who may enter it until ``unshare``; return
        its address, with its host.

        Raises NotAllowed if the rule of the server's space does not let ``person`` ask for that,
        NotFound, HubUnavailable.
        """
        share = _json(await self._ask("PUT", _guest_path(user, server, person), "", body=""))
        return str(share.get("url", ""))

    async def unshare(self, user: str, server: str, person: str) -> None:
        """Revoke a share, if there is one, and every token with which ``person`` was logged in
        there. Raises NotFound for a server that does not exist."""
        await self._ask("DELETE", _guest_path(user, server, person), "")

    async def shares(self) -> list[tuple[str, str, str]]:
        """Return every share of a space's server: its owner, its name, and the person that it is
        shared with. Raises HubUnavailable."""
        shares = _json(await self._ask("GET", "portal/guests", "")).get("shares")
        rows = shares if isinstance(shares, list) else []
        return [(str(row["user"]), str(row["server"]), str(row["person"])) for row in rows]

    async def admit(self, user: str, server: str, person: str) -> str:
        """Let ``person``, who has just asked for it on the portal's page, enter this server once
        without a question of the Hub; return its address, with its host. Whether they may enter
        at all, the Hub checks when they come. Raises NotFound, HubUnavailable."""
        entry = _json(await self._ask("PUT", _entry_path(person, user, server), "", body=""))
        return str(entry.get("url", ""))

    async def ask_run_form(
        self, user: str, server: str, part: str, query: Mapping[str, str], body: Any = None
    ) -> dict[str, Any]:
        """Ask a running session of ``user`` for a ``part`` of the form of a new run, or with a
        ``body`` for a check or the start (spawners/api/run_form.py); return what it answers.

        Raises what the session refuses, with its sentence and field; NotFound if it does not run,
        Unavailable if it does not answer, HubUnavailable.
        """
        path = "/".join(quote(name, safe="") for name in (part, user, server))
        method, content = ("GET", None) if body is None else ("POST", json.dumps(body))
        address = f"portal/run-form/{path}?{urlencode(query)}"
        answer = _json(await self._ask(method, address, "", body=content))
        status, content_of = int(answer.get("status") or 0), answer.get("content")
        told = content_of if isinstance(content_of, dict) else {}
        if status < 300:
            return told
        kind = {403: NotAllowed, 404: NotFound}.get(status, InvalidRequest)
        refusal = (kind if status < 500 else Unavailable)(
            str(told.get("message") or "The session refused this.")[:1000]
        )
        refusal.field = str(told.get("field") or "")[:120] or None
        raise refusal

    async def open_room(self, user: str, server: str) -> None:
        """Share a space's room, this server of ``user``, with all present members of the space
        whom the Hub knows. Raises NotAllowed if the Hub does not know ``user`` as staff of the
        space, NotFound, HubUnavailable."""
        await self._ask("PUT", _room_path(user, server), "", body="")

    async def close_room(self, user: str, server: str) -> None:
        """Revoke the shares of a room, and every token with which others were logged in there.
        Raises NotFound, HubUnavailable."""
        await self._ask("DELETE", _room_path(user, server), "")

    async def room_url(self, user: str, server: str) -> str:
        """Return the address of a room, with its host. Raises NotFound, HubUnavailable."""
        return str(_json(await self._ask("GET", _room_path(user, server), "")).get("url", ""))

    async def rooms(self) -> list[tuple[str, str]]:
        """Return every shared room: its owner, its name. Raises HubUnavailable."""
        rooms = _json(await self._ask("GET", "portal/rooms", "")).get("rooms")
        rows = rooms if isinstance(rooms, list) else []
        return [(str(row["user"]), str(row["server"])) for row in rows]

    async def answers(self) -> bool:
        """Return True if the Hub answers; any answer will do."""
        request = HTTPRequest(
            f"{self.api_url.rstrip('/')}/", request_timeout=5, ssl_options=self._ssl
        )
        try:
            response = await self._client.fetch(request, raise_error=False)
        except (OSError, HTTPClientError):
            return False
        return response.code < HTTPStatus.INTERNAL_SERVER_ERROR

    async def _ask(
        self,
        method: str,
        path: str,
        scope: str,
        headers: Mapping[str, str] = _NO_HEADERS,
        body: str | None = None,
    ) -> HTTPResponse:
        request = HTTPRequest(
            f"{self.api_url.rstrip('/')}/{path}",
            method=method,
            headers={
                "Authorization": f"token {self.api_token}",
                **PASSED_ON.get(),
                **headers,
            },
            body=body,
            allow_nonstandard_methods=True,  # a DELETE with a body
            request_timeout=self.timeout,
            connect_timeout=min(self.timeout, 10),
            follow_redirects=False,
            ssl_options=self._ssl,
        )
        try:
            response = await self._client.fetch(request, raise_error=False)
        except (OSError, HTTPClientError) as error:  # nobody there, or not in time (599)
            self.log.warning("The Hub did not answer %s %s: %s", method, path, error)
            raise HubUnavailable("The Hub does not answer. Try again in a moment.") from None
        if response.code < 300:
            return response
        message = _message(response)
        self.log.warning("The Hub answered %s %s with %d: %s", method, path, response.code, message)
        kind = _OF_LAUNCHES.get(response.reason)
        refusal = kind(message) if kind else _error(response.code, message, scope)
        refusal.field = response.headers.get(FIELD_HEADER)
        if (after := _seconds(response.headers.get("Retry-After", ""))) is not None:
            refusal.details["retry_after"] = after
        raise refusal


def _path(user: str, server: str) -> str:
    named = f"servers/{quote(server, safe='')}" if server else "server"
    return f"users/{quote(user, safe='')}/{named}"


def header_of(name: str) -> str:
    """Return a login name as a header value: percent-encoded ASCII without spaces or line ends."""
    return quote(name, safe="@+")


def _room_path(user: str, server: str) -> str:
    return f"portal/rooms/{quote(user, safe='')}/{quote(server, safe='')}"


def _move_path(user: str, server: str) -> str:
    return f"portal/moves/{quote(user, safe='')}/{quote(server, safe='')}"


def _entry_path(*names: str) -> str:
    return "portal/entries/" + "/".join(quote(part, safe="") for part in names)


def _guest_path(*names: str) -> str:
    return "portal/guests/" + "/".join(quote(part, safe="") for part in names)


def _error(status: int, message: str, scope: str) -> PortalError:
    if status == 404:
        return NotFound("The Hub has no such server.")
    if status == 403 and any(words in message for words in _OF_USERS):
        return NotAllowed(
            "This user may no longer use the portal, or must sign in again. Sign in, then try "
            "again; if that is refused, ask an administrator."
        )
    if status in (401, 403):
        return ConfigurationError(
            f"The Hub does not let the portal's service do this: its role lacks the scope "
            f"'{scope}'. An admin must add it in jupyterhub_config.d/30-roles.py."
        )
    if status == 429:
        return TooManyRequests(f"The Hub is already starting many sessions: {message}")
    if status < 500:
        return Conflict(f"The Hub cannot do this now: {message}")
    if status in (502, 504):
        return HubUnavailable("The Hub does not answer. Try again in a moment.")
    return Unavailable(f"The Hub could not do this: {message}")


def _seconds(text: str) -> float | None:
    """Return seconds of a Retry-After header; None for a date or nothing (RFC 9110, 10.2.3)."""
    return min(float(text), 600.0) if text.strip().isdigit() else None


def _message(response: HTTPResponse) -> str:
    """Return the Hub's own words, from ``{"status": …, "message": …}``."""
    text = _json(response).get("message") or response.reason
    return " ".join(str(text).split())[:500]


def _json(response: HTTPResponse) -> dict[str, Any]:
    """Return the JSON object of the response; {} if it is none."""
    try:
        content = json.loads(response.body)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
