"""Route by which a page of JupyterLab learns why its session has ended.

A session's page may be on a host of its own, where nobody is logged in to the Hub, and its server
can no longer say anything. So no login is asked for: the session's id is random, and only the pages
that its owner and guests had open know it together with the names.
"""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

from jupyterhub import orm
from jupyterhub.apihandlers import APIHandler

from ..session import ending_of_row, kind_of_row

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
        state, said = self._ending(user, server, session)
        self.set_header("Cache-Control", "no-store")
        self.set_header("Access-Control-Allow-Origin", "*")  # no cookie counts
        self.finish(json.dumps({"state": state, "words": said}))

    def _ending(self, user: str, server: str, session: str) -> tuple[str, str]:
        """Return state and words, from one row of the Hub's database, which a restart of the Hub
        does not change: a stranger's question loads no user, nor the user's other servers."""
        query = self.db.query(orm.Spawner).join(orm.User, orm.Spawner.user_id == orm.User.id)
        row = query.filter(orm.User.name == user, orm.Spawner.name == server).one_or_none()
        ending = None if row is None else ending_of_row(row)
        # An earlier portal's sessions have ids that can be guessed (lifecycle/session_history.py).
        if ending is None or not ending.session or ending.session.startswith("job-"):
            return "", ""
        if not secrets.compare_digest(ending.session.encode(), session.encode()):
            return "", ""
        if self._is_active(row):
            return STOPPING, ""
        return ENDED, ending.dated_words(user, kind_of_row(row).words.noun, time.time())

    def _is_active(self, row: orm.Spawner) -> bool:
        user = dict.get(self.users, row.user_id)
        spawner = None if user is None else dict.get(user.spawners, row.name)
        return bool(row.server_id is not None if spawner is None else spawner.active)
