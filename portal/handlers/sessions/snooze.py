"""``snooze``: a delay of what follows when the GPUs of a session are idle."""

from __future__ import annotations

from portal.models import scope
from portal.models.audit import AuditAction
from portal.models.session.idle import IdleState

from ..base.action import Action
from ..base.endpoint import Operation
from ..base.own_session import OwnSession
from .actions import SESSION_ID


class SnoozeSession(Action):
    """Snooze from the session's page."""

    path = "sessions/{session_id}/snooze"
    parameters = {"session_id": SESSION_ID}

    @Operation("Postpone the stop of a session with idle GPUs.", errors=(409,))
    async def on_post(self, session_id: str) -> IdleState:
        """Put off that of your own, or with custom:portal:jobs:manage anyone's."""
        async with self.on_session(
            session_id, scope.JOBS_MANAGE, AuditAction.SNOOZE_SESSION
        ) as record:
            return await self.parts.idle.snooze(record.id)


class SnoozeOwnSession(OwnSession):
    """Snooze from JupyterLab."""

    path = "session/snooze"

    @Operation("Postpone the stop of the calling session with idle GPUs.", errors=(409,))
    async def on_post(self) -> IdleState:
        """Use the session's own token only."""
        record, _ = await self.own()
        async with self.audited(AuditAction.SNOOZE_SESSION, f"session {record.id}", record.user):
            return await self.parts.idle.snooze(record.id)


ENDPOINTS = (SnoozeSession, SnoozeOwnSession)
