"""``api/v1/session``: what a session's own server asks about itself, with its own token."""

from __future__ import annotations

from portal.models.scope import SESSION_OWN
from portal.models.situation import Situation

from .endpoint import Operation
from .own_session import OwnSession


class OneOwnSession(OwnSession):
    """The asker's session."""

    path = "session"
    operations = {
        "get": Operation(
            summary="The situation of the session that asks: its time, its GPUs, what may be done.",
            answer=Situation,
            scope=SESSION_OWN,
            tags=("session",),
        )
    }

    async def on_get(self) -> Situation:
        """With the session's own token only. While Slurm or the database is away it is what was
        known last, and 'error' says so."""
        record, job = await self.own()
        return await self.parts.situations.of(record, job, self.view)


ENDPOINTS = (OneOwnSession,)
