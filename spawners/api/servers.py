"""``POST /hub/api/portal/servers``: how far many people's servers of one name are, for the
portal's service, in one answer of what the Hub has in memory."""

from __future__ import annotations

import asyncio
import json

from jupyterhub import orm
from sqlalchemy.orm import selectinload
from tornado import web

from .moves import MovesBase

MAX_BODY = 1024 * 1024  # bytes; five thousand names
_AT_ONCE = 50  # people in one question to the Hub's database


class ServersHandler(MovesBase):
    """The body: ``{"server": NAME, "people": [NAME, …]}``. The answer: ``{"servers": {PERSON:
    STATE}}``, STATE being "ready", "pending" or "" for none; whom the Hub does not know is left
    out."""

    async def post(self) -> None:
        server, people = self._asked()
        found: dict[str, str] = {}
        # One question for many: one for each person would hold the loop for a second.
        for at in range(0, len(people), _AT_ONCE):
            some = people[at : at + _AT_ONCE]
            there = self.db.query(orm.User).filter(orm.User.name.in_(some))
            for orm_user in there.options(selectinload(orm.User._orm_spawners)):
                user = self.users[orm_user]  # in memory from now on: a launch asks for less
                # Those of a Hub that was restarted are made when they are looked for.
                has_row = server in user.orm_spawners
                found[user.name] = _state(user.spawners[server] if has_row else None)
            await asyncio.sleep(0)
        self.answer({"servers": found})

    def _asked(self) -> tuple[str, list[str]]:
        try:
            body = json.loads(self.request.body) if len(self.request.body) <= MAX_BODY else None
        except (ValueError, RecursionError):
            body = None
        server = body.get("server") if isinstance(body, dict) else None
        people = body.get("people") if isinstance(body, dict) else None
        if not isinstance(server, str) or not isinstance(people, list):
            raise web.HTTPError(400, "The body must have a 'server' and 'people'.")
        return server, [str(one) for one in people]


def _state(spawner: object) -> str:
    if spawner is None:
        return ""
    if getattr(spawner, "pending", None):
        return "pending"
    return "ready" if getattr(spawner, "ready", False) else ""
