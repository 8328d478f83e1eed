"""Start of a run: its row in the database, then its array job, which the Hub launches."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

from portal.errors import HubUnavailable, PortalError, StoreUnavailable
from portal.launch.kinds.run import OPTION
from portal.models.session.run import AskedRun, Run

from .reports import RunReports

_ASKED = tuple(AskedRun.model_fields)


class Hub(Protocol):
    """Part of the Hub's API that this needs."""

    async def begin_server(self, user: str, server: str, options: Any) -> None:
        """Start a server; return once Slurm has its job. Raises HubUnavailable if the Hub does not
        answer: it may have begun."""

    async def runs(self, user: str, server: str) -> bool:
        """Return True if this server runs, starts or stops. Raises NotFound, HubUnavailable."""


class RunStarts:
    """Starts of runs, for whoever asks: a session, a page, a schedule."""

    def __init__(self, reports: RunReports, hub: Hub) -> None:
        self._reports, self._hub = reports, hub

    async def begin(self, run: Run) -> None:
        """Start a new run with its own resources; return once Slurm has its job. Nothing is left of
        one that is refused. One of which it is not known stays: the Hub may submit it when Slurm
        answers again. Raises Conflict if the user has one of this id; and what the Hub raises."""
        await self._reports.add(run)
        try:
            await self._hub.begin_server(run.user, run.server, launch_options(run))
        except HubUnavailable:
            if await self._began(run):
                return
            with contextlib.suppress(StoreUnavailable):
                await self._reports.remove(run)
            raise
        except PortalError:
            with contextlib.suppress(StoreUnavailable):
                await self._reports.remove(run)
            raise

    async def _began(self, run: Run) -> bool:
        """Return True if the Hub has begun a start that it did not answer. Raises HubUnavailable if
        that is not known."""
        try:
            return await self._hub.runs(run.user, run.server)
        except HubUnavailable:
            raise HubUnavailable(
                "The Hub does not answer. It is not known whether it has begun the run "
                f"'{run.name}', which stays in your list of runs: if it has not started in a "
                "quarter of an hour, it ends there, and you can start it again."
            ) from None
        except PortalError:  # it knows no such server
            return False


def launch_options(run: Run) -> dict[str, Any]:
    """Return the ``user_options`` of a run's launch."""
    asked = run.model_dump(include=set(_ASKED))
    return {**run.resources, "environment": run.environment, OPTION: asked}
