"""Port route: a session posts here the port that it listens on.

It accepts one integer and nothing else. batchspawner's own, which sets any attribute that a session
posts, is removed by ``hub_patches/stock_port_route.py``.
"""

from __future__ import annotations

import json
from typing import Any, Protocol, runtime_checkable

from jupyterhub import orm
from jupyterhub.apihandlers import APIHandler
from tornado import web

MAX_BODY = 64  # bytes: {"port": 65535} and some white space


@runtime_checkable
class PortReceiver(Protocol):
    """Spawner whose servers post their ports here."""

    def knows_token(self, token_id: int) -> bool: ...

    async def accept_port(self, token_id: int, number: int) -> None: ...


class PortHandler(APIHandler):
    """``POST /hub/api/portal/port`` with ``{"port": N}`` and the session's own token."""

    def check_xsrf_cookie(self) -> None:
        """Skip the check: only a token is accepted, and a browser does not send one by itself."""

    def _record_activity(self, obj: Any, timestamp: Any = None) -> bool:
        """Record nothing: a start is no activity, and storing it would be a commit each."""
        return False

    async def prepare(self) -> None:
        """Skip the Hub's look-ups for each request: only the token counts here, and a class of two
        hundred posts within seconds."""
        self._jupyterhub_user = None
        self.expanded_scopes: set[str] = set()
        self.parsed_scopes: dict[str, Any] = {}

    async def post(self) -> None:
        """Accept the port. 201 when it is stored; 400 for any other body, 403 for other tokens."""
        token = self.get_token()
        if token is None or token.user is None:
            raise web.HTTPError(403, "Only a session's own token may post its port.")
        self._jupyterhub_user = self.users[token.user]  # for the log
        port = self._port()
        spawner = self._spawner(token)
        if spawner is None:
            raise web.HTTPError(404, "No session that is starting or running has this token.")
        await spawner.accept_port(token.id, port)
        self.set_status(201)
        self.finish(json.dumps({"port": port}))

    def _port(self) -> int:
        body = self.request.body
        try:
            data = json.loads(body) if len(body) <= MAX_BODY else None
        except ValueError:
            data = None
        if not isinstance(data, dict) or set(data) != {"port"}:
            raise web.HTTPError(400, "The body must be an object with the single key 'port'.")
        port = data["port"]
        if type(port) is not int or not 1024 <= port <= 65535:
            raise web.HTTPError(400, "'port' must be a whole number from 1024 to 65535.")
        return port

    def _spawner(self, token: orm.APIToken) -> PortReceiver | None:
        user = self.users[token.user]
        for orm_spawner in token.user.orm_spawners.values():
            if orm_spawner.server is None:
                continue
            spawner = user.spawners[orm_spawner.name]
            if isinstance(spawner, PortReceiver) and spawner.knows_token(token.id):
                return spawner
        return None
