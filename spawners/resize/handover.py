"""What the Hub says to the two servers of a session that moves: the old one saves and says which
terminals are open, the new one opens them again.

The route is ``portal/handover`` of portal_session; an environment may have an older one without
it. So nothing here raises: a move that could not hand over is a move all the same.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from jupyterhub import orm
from jupyterhub.spawner import Spawner
from jupyterhub.utils import make_ssl_context, url_path_join
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient

_ROUTE = "portal/handover"
_ANSWER = 5.0  # seconds that a server may take for what it can say at once
_LARGEST = 256 * 1024  # bytes of an answer


async def busy_kernels(spawner: Spawner) -> list[str] | None:
    """The kernels that compute now, by the names of their notebooks; None: nobody says."""
    said = await _ask(spawner, spawner.server.url, "GET", None, _ANSWER)
    busy = said.get("busy")
    if not isinstance(busy, list):
        return None
    return [one[:200] for one in busy[:100] if isinstance(one, str) and one.isprintable()]


async def hand_over(spawner: Spawner, new_url: str, patience: float) -> None:
    """Let open pages of the session save, for at most ``patience`` seconds, and give its terminals
    to the server at ``new_url``."""
    old = await _ask(spawner, spawner.server.url, "POST", {"seconds": patience}, patience + _ANSWER)
    if terminals := old.get("terminals"):
        await _ask(spawner, new_url, "PUT", {"terminals": terminals}, _ANSWER)


def client_tls(spawner: Spawner) -> Any:
    """The Hub's TLS context for servers; None without ``internal_ssl``."""
    key, certificate, authority = (
        spawner.user.settings.get(f"internal_ssl_{name}") for name in ("key", "cert", "ca")
    )
    return make_ssl_context(key, certificate, cafile=authority)


async def _ask(
    spawner: Spawner, server: str, method: str, body: Any, seconds: float
) -> dict[str, Any]:
    """The server's JSON object; {} when it gives none within ``seconds``, whatever the reason."""
    # The server is the user's: a client of its own, since one that is silent would keep the others
    # waiting for the shared one's few connections, and no answer that fills the Hub's memory.
    client = SimpleAsyncHTTPClient(
        force_instance=True, max_body_size=_LARGEST, max_buffer_size=_LARGEST
    )
    with contextlib.closing(client), _token(spawner) as token:
        request = HTTPRequest(
            url_path_join(server, _ROUTE),
            method=method,
            headers={"Authorization": f"token {token}", "Content-Type": "application/json"},
            body=None if body is None else json.dumps(body),
            connect_timeout=_ANSWER,
            request_timeout=seconds,
            follow_redirects=False,
            ssl_options=client_tls(spawner),
        )
        try:
            said = json.loads((await client.fetch(request)).body)
        except (OSError, HTTPClientError, ValueError, RecursionError) as error:
            spawner.log.warning(
                "The server of %s did not answer %s %s: %s",
                spawner._log_name,
                method,
                _ROUTE,
                error,
            )
            return {}
    return said if isinstance(said, dict) else {}


@contextlib.contextmanager
def _token(spawner: Spawner) -> Iterator[str]:
    """A token of the owner's that opens this server alone, for as long as this takes."""
    user, db = spawner.user, spawner.user.db
    token = user.new_api_token(
        note="A session that moves to other resources",
        expires_in=120,
        scopes=[f"access:servers!server={user.name}/{spawner.name}"],
    )
    # Looked up now: once it is over by the machine's clock it is not found by its text any more,
    # and it would be good again when that clock is set back.
    made = orm.APIToken.find(db, token)
    number = 0 if made is None else made.id
    try:
        yield token
    finally:
        row = db.get(orm.APIToken, number)
        if row is not None and row.match(token):  # its number may have been given out anew
            db.delete(row)
            db.commit()
