"""Second launch of a run, for its points that have not succeeded: the same run and folder, and a
new array job with only their numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Protocol

from portal.errors import HubUnavailable, NotFound, PortalError, StoreUnavailable, Unavailable
from portal.models.session.run import Run
from portal.store import Store
from portal.work.run.tables.notices import RunNoticeTable
from portal.work.run.tables.reopenings import RunReopenings

from ..reports import RunReports
from .chains import Chains
from .starts import launch_options

_UNKNOWN = (
    "The Hub does not answer, so it is not known yet whether the points of this run were started "
    "again. The run's page shows the result within 15 minutes."
)


class ServerRestarts(Protocol):
    """Part of the Hub's API that this needs."""

    async def begin_server(self, user: str, server: str, options: Any) -> None:
        """Start a server; return once Slurm has its job."""

    async def server_state(self, user: str, server: str) -> str:
        """Return the state of a server; "" for one that does not run."""


class RunsAgain:
    """Further launches of runs that have ended."""

    def __init__(self, store: Store, reports: RunReports, hub: ServerRestarts) -> None:
        self._store, self._reports, self._hub = store, reports, hub
        self._chains = Chains(store)

    async def start(self, run: Run, changes: Mapping[str, Any]) -> Run:
        """Start the points of a run that have not succeeded; return the run once Slurm has their
        job. ``changes``: resources that differ from the launch before.

        The run waits from the beginning on, so that no other request can start the same points. If
        the launch is refused, all is as before. Raises Conflict if it has not ended or all points
        have succeeded, NotFound, and what the Hub raises.
        """
        resources = {**run.resources, **changes}
        waits = await self._waits(run)
        reopened = await self._store.table(RunReopenings).reopen(run, resources)
        self._reports.forget(run)
        again = reopened.run
        try:
            await self._hub.begin_server(
                again.user, again.server, launch_options(again, waits=waits)
            )
        except PortalError as error:
            if not await self._is_refused(again, error):
                raise HubUnavailable(_UNKNOWN) from None
            # Without the database it ends later: the follower finds no session of this launch.
            with contextlib.suppress(StoreUnavailable):
                if not await self._store.table(RunReopenings).take_back(reopened):
                    return again
            self._reports.forget(run)
            raise
        with contextlib.suppress(StoreUnavailable):
            await self._store.table(RunNoticeTable).repeat(run.user, run.id)
        return again

    async def _waits(self, run: Run) -> bool:
        """Return True if the run must wait for the one before it. Raises Conflict, NotFound."""
        try:
            return await self._chains.waits(run)
        except NotFound:  # the run before is no longer kept
            if run.reason:  # that one failed, and this one has never started
                raise
            return False

    async def _is_refused(self, run: Run, error: PortalError) -> bool:
        """Return True if the Hub has not launched it, and will not."""
        if not isinstance(error, HubUnavailable) and type(error) is not Unavailable:
            return True
        try:
            return not await self._hub.server_state(run.user, run.server)
        except PortalError:
            return False
