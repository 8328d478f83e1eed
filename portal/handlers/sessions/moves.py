"""Change of a running session's resources, by the session itself or by its owner's browser."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from portal.errors import Conflict, NotAllowed
from portal.launch.choices.dialog_fields import fields_of_move
from portal.models.audit import AuditAction
from portal.models.scope import JOBS_MANAGE, SESSIONS_READ
from portal.models.session.move import Move
from portal.models.session.resources import Resources
from portal.models.session.session import SessionRecord, SessionState
from portal.sessions.moves import BeforeMove, options_now, options_of

from ..base.action import Action
from ..base.endpoint import Operation, Query
from ..base.own_session import OwnSession
from .actions import SESSION_ID

_ABOUT = "Form data for a change of resources, and the progress of the current change."
_BEGIN = "Change a running session's resources: queue a job that takes its place."
_CANCEL = "Cancel a change of resources."


class MoveQuery(Query):
    """Extent of the answer."""

    kernels: Annotated[
        bool,
        Field(
            description="Include the kernels that are running code; queries the session's server."
        ),
    ] = False


class MoveAction(Action):
    """Base class of both: the change, once it is known whose session it is."""

    async def before(self, record: SessionRecord, *, kernels: bool) -> BeforeMove:
        """Return facts on session and cluster for a change; with ``kernels`` ask its server."""
        fields = fields_of_move(list(self.view.snapshot.nodes.values()))
        types = next(field.values for field in fields if field.name == "gpu_type")
        moves = self.parts.moves
        if kernels:
            facts = await moves.before(record)
        else:
            facts = BeforeMove(move=moves.move_of(record.id))
        options = options_now(record, self.view.snapshot.jobs.get(record.job_id))
        return facts.model_copy(update={"gpu_types": types, "fields": fields, "options": options})

    async def begin(self, record: SessionRecord) -> Move:
        """Queue the new job, with an entry in the audit log."""
        wanted: dict[str, Any] = self.body.model_dump(exclude_unset=True)
        async with self.audited(
            AuditAction.MOVE_SESSION, f"session {record.id}", record.user
        ) as line:
            if record.state is not SessionState.RUNNING:
                raise Conflict(
                    "Only the resources of a running session can be changed; "
                    f"this session is {record.state}."
                )
            move = await self.parts.moves.begin(record, wanted, self.person.name)
            line.detail = f"Job {move.job_id} replaces job {record.job_id} once it runs."
        return move

    async def cancel(self, record: SessionRecord) -> Move:
        """Cancel the change, with an entry in the audit log."""
        async with self.audited(
            AuditAction.CANCEL_MOVE, f"session {record.id}", record.user
        ) as line:
            move = await self.parts.moves.cancel(record, self.person.name)
            line.detail = f"Job {move.job_id} is cancelled."
        return move


class MoveOwnSession(MoveAction, OwnSession):
    """Change of the session that asks."""

    path = "session/move"

    @Operation(_ABOUT)
    async def on_get(self) -> BeforeMove:
        """Use the session's own token only."""
        record, _ = await self.own()
        return await self.before(record, kernels=True)

    @Operation(_BEGIN, body=Resources, status=202, errors=(409,))
    async def on_post(self) -> Move:
        """Use the session's own token only.

        The session goes on until the new job can take its place; kernels and their variables end
        then.
        """
        record, _ = await self.own()
        return await self.begin(record)

    @Operation(_CANCEL, errors=(409,))
    async def on_delete(self) -> Move:
        """Use the session's own token only."""
        record, _ = await self.own()
        return await self.cancel(record)


class MoveSession(MoveAction):
    """Change of one's own session, from a page."""

    path = "sessions/{session_id}/move"
    parameters = {"session_id": SESSION_ID}

    @Operation(_ABOUT, query=MoveQuery)
    async def on_get(self, session_id: str) -> BeforeMove:
        """Ask about your own, or with custom:portal:sessions:read anyone's."""
        record = await self.session(session_id, SESSIONS_READ)
        if record.state is not SessionState.RUNNING:
            return BeforeMove(options=options_of(record))
        return await self.before(record, kernels=self.query.kernels)

    @Operation(_BEGIN, body=Resources, status=202, errors=(409,))
    async def on_post(self, session_id: str) -> Move:
        """Change your own only.

        The session goes on until the new job can take its place; kernels and their variables end
        then.
        """
        record = await self.session(session_id, JOBS_MANAGE, AuditAction.MOVE_SESSION)
        if record.user != self.person.name:
            error = NotAllowed("Only the owner can change a session's resources.")
            await self.failed(AuditAction.MOVE_SESSION, f"session {session_id}", error)
        return await self.begin(record)

    @Operation(_CANCEL, errors=(409,))
    async def on_delete(self, session_id: str) -> Move:
        """Cancel it for your own, or with custom:portal:jobs:manage for anyone's."""
        return await self.cancel(
            await self.session(session_id, JOBS_MANAGE, AuditAction.CANCEL_MOVE)
        )


ENDPOINTS = (MoveOwnSession, MoveSession)
