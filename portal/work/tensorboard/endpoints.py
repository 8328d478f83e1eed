"""Logs of an ended session in a TensorBoard: a session of its own, beside the others."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from pydantic import Field, StringConstraints

from portal.errors import Conflict, NotAllowed, NotFound
from portal.handlers.base.action import Action
from portal.handlers.base.endpoint import Operation
from portal.handlers.sessions.actions import SESSION_ID, ServerAddress
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.scope import SESSIONS_READ
from portal.models.session.session import SessionState
from portal.work.tensorboard.kind import LONGEST, MOST, OPTION, SERVER, read_folders


class LogFolders(Frozen):
    """Log folders: absolute, or "~" and what is below the home."""

    folders: Annotated[
        tuple[Annotated[str, StringConstraints(max_length=LONGEST)], ...],
        Field(min_length=1, max_length=MOST, examples=[["~/runs"]]),
    ]


class OpenLogs(Action):
    """Server "tensorboard" of the person, in the environment of the session that ended."""

    path = "sessions/{session_id}/tensorboard"
    parameters = {"session_id": SESSION_ID}

    @Operation("Show the logs of an ended session in TensorBoard.", body=LogFolders, errors=(409,))
    async def on_post(self, session_id: str) -> ServerAddress:
        """Open the logs of your own session only.

        The job has no GPUs and ends by itself (``c.PortalSpawner.tensorboard_resources``). The
        answer is the page that follows its start and then shows it.
        """
        record = await self.session(session_id, SESSIONS_READ, AuditAction.OPEN_LOGS)
        folders = read_folders(list(self.body.folders))
        name = self.person.name
        async with self.audited(
            AuditAction.OPEN_LOGS, f"session {session_id}", record.user, ", ".join(folders)
        ):
            if record.user != name:
                raise NotAllowed("This session is not yours: only its owner can open its logs.")
            if record.state is not SessionState.ENDED:
                raise Conflict("This session has not ended: open TensorBoard in the session.")
            await self._offered(record.environment, record.environment_title)
            options = {"environment": record.environment, OPTION: list(folders)}
            await self.parts.hub.start_server(name, SERVER, options)
        self.done("")
        base = self.parts.base
        return ServerAddress(url=f"{base}hub/spawn-pending/{quote(name, safe='@~')}/{SERVER}")

    async def _offered(self, environment: str, title: str) -> None:
        await self.parts.catalog.load()
        try:
            self.parts.catalog.get(environment, self.person)
        except NotFound:
            raise NotFound(
                f"The environment of this session, '{title or environment}', is no longer "
                "available to you. Start a session in another environment and open TensorBoard "
                "there."
            ) from None


ENDPOINTS = (OpenLogs,)
