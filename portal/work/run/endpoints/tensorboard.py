"""TensorBoard over all logs of a run, while it runs and afterwards."""

from __future__ import annotations

from urllib.parse import quote

from portal.errors import NotAllowed, NotFound
from portal.handlers.base.endpoint import Operation
from portal.handlers.sessions.actions import ServerAddress
from portal.models.audit import AuditAction
from portal.models.session.run import Run
from portal.models.session.session import SessionState
from portal.sessions.links import progress_url, server_url
from portal.spaces.registry import requested_space
from portal.work.run.seen import living_sessions
from portal.work.tensorboard.kind import OPTION, SERVER

from .runs import RUN_ID, RunAction


class RunTensorBoard(RunAction):
    """Server "tensorboard" of the person, in the environment of the run."""

    path = "runs/{run}/tensorboard"
    parameters = {"run": RUN_ID}
    in_spaces = False

    @Operation("Show the logs of one of your runs in TensorBoard.", status=202, errors=(409,))
    async def on_post(self, run: str) -> ServerAddress:
        """Start it in a job of its own, which has no GPUs and ends by itself
        (``c.PortalSpawner.tensorboard_resources``); if it runs for this folder already, its address
        is returned. The folder is that of the run: write the logs there or below it."""
        own_run = await self.own(run)
        base = self.parts.base
        if (running := self._running(own_run, base)) is not None:
            return ServerAddress(url=running)
        async with self.audited(
            AuditAction.OPEN_LOGS, f"run {own_run.id}", own_run.user, own_run.folder
        ):
            if own_run.space:
                noun = requested_space(dict(own_run)).noun
                raise NotAllowed(
                    f"Only sessions of the {noun} '{own_run.space}' can read the files of this "
                    f"run. Open TensorBoard in your {noun} session."
                )
            await self._offered(own_run)
            options = {"environment": own_run.environment, OPTION: [own_run.folder]}
            await self.parts.hub.start_server(own_run.user, SERVER, options)
        self.done("")
        return ServerAddress(
            url=f"{base}hub/spawn-pending/{quote(own_run.user, safe='@~')}/{SERVER}"
        )

    def _running(self, run: Run, base: str) -> str | None:
        """Return the address of a TensorBoard that shows the run; None without one."""
        record = living_sessions(self.parts).get((self.person.name, SERVER))
        if record is None or record.options.get(OPTION) != [run.folder]:
            return None
        runs = record.state is SessionState.RUNNING
        return server_url(record, base) if runs else progress_url(record, base)

    async def _offered(self, run: Run) -> None:
        """Raise NotFound unless the run's environment is available to its user."""
        await self.parts.catalog.load()
        try:
            self.parts.catalog.get(run.environment, self.person)
        except NotFound:
            raise NotFound(
                f"The environment of this run, '{run.environment}', is no longer available to "
                "you. Start a session in another environment and open TensorBoard there."
            ) from None


ENDPOINTS = (RunTensorBoard,)
