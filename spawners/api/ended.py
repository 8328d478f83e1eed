"""Route by which a page of JupyterLab learns why its session has ended.

A session's page may be on a host of its own, where nobody is logged in to the Hub, and its server
can no longer say anything. So no login is asked for: the session's id is random, and only the pages
that its owner and guests had open know it together with the names.
"""

from __future__ import annotations

import json
import secrets
from typing import Any

from jupyterhub import orm
from jupyterhub.apihandlers import APIHandler

from ..form import words

STOPPING, ENDED = "stopping", "ended"


class EndedHandler(APIHandler):
    """``GET /hub/api/portal/ended/USER/SERVER/SESSION``: ``state`` and ``words`` of the last end.
    Both are "" of a session that runs, and of one that there is not."""

    def _record_activity(self, obj: Any, timestamp: Any = None) -> bool:
        """Record nothing: an open page is no activity."""
        return False

    async def prepare(self) -> None:
        """Skip the Hub's look-ups for each request: no login counts here."""
        self._jupyterhub_user = None
        self.expanded_scopes: set[str] = set()
        self.parsed_scopes: dict[str, Any] = {}

    def get(self, user: str, server: str, session: str) -> None:
        state = self._state(spawner := self._spawner(user, server), session)
        said = words.ended(spawner) if state == ENDED else ""
        self.set_header("Cache-Control", "no-store")
        self.set_header("Access-Control-Allow-Origin", "*")  # no cookie counts
        self.finish(json.dumps({"state": state, "words": said}))

    def _spawner(self, name: str, server: str) -> Any:
        """Return the spawner of a user that the Hub has in memory: a stranger's question loads
        none."""
        row = orm.User.find(self.db, name)
        user = dict.get(self.users, row.id) if row is not None else None
        if user is None or server not in user.orm_user.orm_spawners:
            return None
        return user.spawners[server]

    def _state(self, spawner: Any, session: str) -> str:
        ending = getattr(spawner, "ending", None)
        # An earlier portal's sessions have ids that can be guessed (lifecycle/session_history.py).
        if ending is None or not ending.session or ending.session.startswith("job-"):
            return ""
        if not secrets.compare_digest(ending.session.encode(), session.encode()):
            return ""
        return STOPPING if spawner.active else ENDED
