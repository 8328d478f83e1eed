"""``POST /hub/api/portal/servers``: states of many people's servers of one name, for the portal's
service, in one response from what the Hub has in memory."""

from __future__ import annotations

import asyncio
import json

from jupyterhub import orm
from sqlalchemy.orm import selectinload
from tornado import web

from .moves import MovesBase

MAX_BODY = 1024 * 1024  # bytes; five thousand names
_AT_ONCE = 50  # people in one query of the Hub's database


class ServersHandler(MovesBase):
    """Handler of ``{"server": NAME, "people": [NAME, …]}``. The response: ``{"servers": {PERSON:
    STATE}}``, STATE being "ready", "pending" or "" for none; people unknown to the Hub are left
    out."""

    async def post(self) -> None:
        server, people = self._asked()
        states: dict[str, str] = {}
        # One query for many: one for each person would block the loop for a second.
        for at in range(0, len(people), _AT_ONCE):
            names = people[at : at + _AT_ONCE]
            query = self.db.query(orm.User).filter(orm.User.name.in_(names))
            for orm_user in query.options(selectinload(orm.User._orm_spawners)):
                user = self.users[orm_user]  # in memory from now on: a launch asks for less
                # After a restart of the Hub, spawners are made when they are looked up.
                has_row = server in user.orm_spawners
                states[user.name] = _state(user.spawners[server] if has_row else None)
            await asyncio.sleep(0)
        self.answer({"servers": states})

    def _asked(self) -> tuple[str, list[str]]:
        try:
            body = json.loads(self.request.body) if len(self.request.body) <= MAX_BODY else None
        except (ValueError, RecursionError):
            body = None
        server = body.get("server") if isinstance(body, dict) else None
        people = body.get("people") if isinstance(body, dict) else None
        if not isinstance(server, str) or not isinstance(people, list):
            raise web.HTTPError(400, "The body must have a 'server' and 'people'.")
        return server, [str(name) for name in people]


def _state(spawner: object) -> str:
    if spawner is None:
        return ""
    if getattr(spawner, "pending", None):
        return "pending"
    return "ready" if getattr(spawner, "ready", False) else ""
