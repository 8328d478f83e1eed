"""Start of a run: its row in the database, then its array job, which the Hub launches."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

from portal.errors import PortalError, StoreUnavailable
from portal.launch.kinds.run import OPTION
from portal.models.session.run import AskedRun, Run

from .reports import RunReports

_ASKED = tuple(AskedRun.model_fields)


class Hub(Protocol):
    """Part of the Hub's API that this needs."""

    async def begin_server(self, user: str, server: str, options: Any) -> None:
        """Start a server; return once Slurm has its job."""


class RunStarts:
    """Starts of runs, for whoever asks: a session, a page, a schedule."""

    def __init__(self, reports: RunReports, hub: Hub) -> None:
        self._reports, self._hub = reports, hub

    async def begin(self, run: Run) -> None:
        """Start a new run with its own resources; return once Slurm has its job. Nothing is left of
        one that is refused. Raises Conflict if the user has one of this id; and what the Hub
        raises."""
        await self._reports.add(run)
        try:
            await self._hub.begin_server(run.user, run.server, launch_options(run))
        except PortalError:
            with contextlib.suppress(StoreUnavailable):
                await self._reports.remove(run)
            raise


def launch_options(run: Run) -> dict[str, Any]:
    """Return the ``user_options`` of a run's launch."""
    asked = run.model_dump(include=set(_ASKED), exclude_defaults=True)
    asked["at_once"] = run.at_once
    return {**run.resources, "environment": run.environment, OPTION: asked}
