"""``POST /hub/api/portal/servers``: how far many people's servers of one name are, for the
portal's service, in one answer of what the Hub has in memory."""

from __future__ import annotations

import json

from jupyterhub import apihandlers, orm
from tornado import web

from .moves import MovesBase

MAX_BODY = 1024 * 1024  # bytes; five thousand names


class ServersHandler(MovesBase):
    """The body: ``{"server": NAME, "people": [NAME, …]}``. The answer: ``{"servers": {PERSON:
    STATE}}``, STATE being "ready", "pending" or "" for none; whom the Hub does not know is left
    out."""

    def post(self) -> None:
        server, people = self._asked()
        # Two questions for all of them: one for each person would hold the loop for a second.
        who = self.db.query(orm.User.name, orm.User.id).filter(orm.User.name.in_(people)).all()
        have = self.db.query(orm.Spawner.user_id).filter(
            orm.Spawner.name == server, orm.Spawner.user_id.in_([id_ for _, id_ in who])
        )
        some = {id_ for (id_,) in have}
        # Those of a Hub that was restarted are made when they are looked for.
        found = {
            name: _state(self.users[id_].spawners[server] if id_ in some else None)
            for name, id_ in who
        }
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


def register(rows: list[object]) -> None:
    """Add our route to a list of Hub API handlers."""
    if not any(row[1] is ServersHandler for row in rows):  # type: ignore[index]
        rows.append((r"/api/portal/servers", ServersHandler))


register(apihandlers.default_handlers)
