"""Endpoints served over HTTP without the rest of the service, with a fake Hub."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from types import SimpleNamespace
from typing import Any

import httpx
from jupyterhub.services.auth import HubAuth, HubOAuth
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

from portal.assembly import Services
from portal.handlers.base.endpoint import Endpoint
from portal.models.catalog.environment import Environment
from portal.models.scope import SESSION_OWN
from portal.store import Store

PREFIX = "/services/portal/"
ACCESS = "access:services!service=portal"


def of_server(user: str, server: str = "") -> dict[str, Any]:
    """Return the Hub's model of the token of a session of ``user``."""
    return {"name": user, "kind": "user", "scopes": [f"{SESSION_OWN}!server={user}/{server}"]}


def person(user: str, *scopes: str) -> dict[str, Any]:
    """Return the Hub's model of a token of ``user``."""
    scopes = (f"{SESSION_OWN}!user={user}", ACCESS, *scopes)
    return {"name": user, "kind": "user", "scopes": list(scopes)}


def said(answer: httpx.Response) -> str:
    """Return the message of a response, which may be an error."""
    found = answer.json()
    return str(found["error"]["message"] if "error" in found else found["message"])


def parts_on(store: Store, **played: Any) -> Services:
    """Return the parts of a service with this database. ``played``: fakes and settings by name; of
    the other systems there is nothing."""
    nothing = SimpleNamespace(runner=None)
    names = ("cluster", "control", "telemetry", "dashboard", "hub")
    given = {"catalog": catalog_of(), **dict.fromkeys(names, nothing), **played}
    return Services(prefix=PREFIX, log=logging.getLogger("service"), store=store, **given)


def catalog_of(*environments: Environment) -> SimpleNamespace:
    """Return a fake catalog of these environments."""

    async def load() -> None:
        pass

    return SimpleNamespace(
        load=load,
        runner=None,
        environments={known.name: known for known in environments},
        directory="/nowhere/environments",
    )


class _HubUser(RequestHandler):
    """Handler of ``/hub/api/user`` that answers as the Hub does."""

    def get(self) -> None:
        token = self.request.headers["Authorization"].removeprefix("token ")
        model = self.settings["model_of"](token)
        if isinstance(model, dict):
            self.finish(model)
        else:
            self.send_error(model or 403)


def _listen(application: Application, servers: contextlib.ExitStack) -> int:
    socket, port = bind_unused_port()
    server = HTTPServer(application)
    server.add_socket(socket)
    servers.callback(server.stop)
    return port


@contextlib.asynccontextmanager
async def served(
    kinds: Iterable[type[Endpoint]],
    parts: Any,
    model_of: Callable[[str], dict[str, Any] | int | None],
    *,
    logins: bool = False,
) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the endpoints with ``parts``, whose store is closed at the end; yield a client.

    ``model_of``: returns the Hub's model of a token, or the status of its response (None: 403).
    ``logins``: the endpoints for people query this Hub as well.
    """
    with contextlib.ExitStack() as servers:
        hub_port = _listen(Application([("/hub/api/user", _HubUser)], model_of=model_of), servers)
        hub = {"api_url": f"http://127.0.0.1:{hub_port}/hub/api", "api_token": "service"}
        auth = HubAuth(cache_max_age=300, **hub)
        if logins:
            HubOAuth.clear_instance()
            HubOAuth.instance(
                **hub,
                oauth_client_id="service-portal",
                base_url=parts.prefix,
                access_scopes={ACCESS},
            )
            servers.callback(HubOAuth.clear_instance)
        web = Application(
            [kind.route(parts.prefix) for kind in kinds],
            parts=parts,
            log=parts.log,
            session_tokens=auth,
            hub_auth=auth,
            cookie_secret=b"of cookies that no browser has",
            log_function=lambda _: None,
        )
        address = f"http://127.0.0.1:{_listen(web, servers)}{parts.prefix}api/v1/"
        try:
            async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=120) as client:
                yield client
        finally:
            await parts.store.close()
