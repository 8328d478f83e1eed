"""Handover between the two servers of a session that moves: the old one saves and lists its open
terminals, the new one opens them again.

The route is ``portal/handover`` of portal_session, which an older one in an environment may lack.
So nothing here raises: a move without a handover is a move all the same.
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
_ANSWER = 5.0  # seconds that a server may take for an immediate response
_LARGEST = 256 * 1024  # bytes of a response


async def busy_kernels(spawner: Spawner) -> list[str] | None:
    """Return the kernels that compute now, by the names of their notebooks; None: unknown."""
    report = await _ask(spawner, spawner.server.url, "GET", None, _ANSWER)
    busy = report.get("busy")
    if not isinstance(busy, list):
        return None
    return [name[:200] for name in busy[:100] if isinstance(name, str) and name.isprintable()]


async def hand_over(spawner: Spawner, new_url: str, patience: float) -> None:
    """Let open pages of the session save, for at most ``patience`` seconds, and pass its terminals
    to the server at ``new_url``."""
    old = await _ask(spawner, spawner.server.url, "POST", {"seconds": patience}, patience + _ANSWER)
    if terminals := old.get("terminals"):
        await _ask(spawner, new_url, "PUT", {"terminals": terminals}, _ANSWER)


def client_tls(spawner: Spawner) -> Any:
    """Return the Hub's TLS context for servers; None without ``internal_ssl``."""
    key, certificate, authority = (
        spawner.user.settings.get(f"internal_ssl_{name}") for name in ("key", "cert", "ca")
    )
    return make_ssl_context(key, certificate, cafile=authority)


async def _ask(
    spawner: Spawner, server: str, method: str, body: Any, seconds: float
) -> dict[str, Any]:
    """Return the server's JSON object; {} if it gives none within ``seconds``, for any reason."""
    # The server is the user's, so it gets a client of its own: a silent one would hold the few
    # connections of a shared client, and no response may fill the Hub's memory.
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
            content = json.loads((await client.fetch(request)).body)
        except (OSError, HTTPClientError, ValueError, RecursionError) as error:
            spawner.log.warning(
                "The server of %s did not answer %s %s: %s",
                spawner._log_name,
                method,
                _ROUTE,
                error,
            )
            return {}
    return content if isinstance(content, dict) else {}


@contextlib.contextmanager
def _token(spawner: Spawner) -> Iterator[str]:
    """Yield a token of the owner's for this server only, and revoke it afterwards."""
    user, db = spawner.user, spawner.user.db
    token = user.new_api_token(
        note="Change of a session's resources",
        expires_in=120,
        scopes=[f"access:servers!server={user.name}/{spawner.name}"],
    )
    # Looked up now: an expired token is not found by its text, and would be valid again if the
    # machine's clock were set back.
    api_token = orm.APIToken.find(db, token)
    token_id = 0 if api_token is None else api_token.id
    try:
        yield token
    finally:
        row = db.get(orm.APIToken, token_id)
        if row is not None and row.match(token):  # its id may have been reused
            db.delete(row)
            db.commit()
