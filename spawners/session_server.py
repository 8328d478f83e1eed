"""Requests of the Hub to the server of a session, with a token of its owner for that server alone.

The server is the user's, so it may answer with anything, or not at all.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from jupyterhub import orm
from jupyterhub.spawner import Spawner
from jupyterhub.utils import make_ssl_context, url_path_join
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient

CONNECT = 5.0  # seconds that a server may take to accept a connection
LARGEST = 256 * 1024  # bytes of a response


class ServerAnswer(NamedTuple):
    """Response of a server: its status, and its JSON object."""

    status: int
    content: dict[str, Any]


async def ask_server(
    spawner: Spawner,
    server: str,
    route: str,
    method: str = "GET",
    body: Any = None,
    *,
    seconds: float,
    note: str,
    largest: int = LARGEST,
) -> ServerAnswer | None:
    """Send a request to a ``route`` of the server at the URL ``server``; return its response, None
    if it gives no JSON object of at most ``largest`` bytes within ``seconds``, for any reason.
    ``note``: of the token."""
    # A client of its own: a silent server would hold the few connections of a shared client, and no
    # response may fill the Hub's memory.
    client = SimpleAsyncHTTPClient(
        force_instance=True, max_body_size=largest, max_buffer_size=largest
    )
    with contextlib.closing(client), _token(spawner, note) as token:
        request = HTTPRequest(
            url_path_join(server, route),
            method=method,
            headers={"Authorization": f"token {token}", "Content-Type": "application/json"},
            body=None if body is None else json.dumps(body),
            connect_timeout=min(CONNECT, seconds),
            request_timeout=seconds,
            follow_redirects=False,
            ssl_options=client_tls(spawner),
        )
        try:
            response = await client.fetch(request, raise_error=False)
            content = json.loads(response.body)
        except (OSError, HTTPClientError, ValueError, RecursionError) as error:
            name = spawner._log_name
            spawner.log.warning(
                "The server of %s did not answer %s %s: %s", name, method, route, error
            )
            return None
    return ServerAnswer(response.code, content) if isinstance(content, dict) else None


def client_tls(spawner: Spawner) -> Any:
    """Return the Hub's TLS context for servers; None without ``internal_ssl``."""
    key, certificate, authority = (
        spawner.user.settings.get(f"internal_ssl_{name}") for name in ("key", "cert", "ca")
    )
    return make_ssl_context(key, certificate, cafile=authority)


@contextlib.contextmanager
def _token(spawner: Spawner, note: str) -> Iterator[str]:
    """Yield a token of the owner's for this server only, and revoke it afterwards."""
    user, db = spawner.user, spawner.user.db
    token = user.new_api_token(
        note=note,
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
