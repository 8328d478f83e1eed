"""Use of GPUs and memory by a run over time."""

from __future__ import annotations

import asyncio
import time

from portal.handlers.base.endpoint import Operation
from portal.handlers.cluster.job_use import uses_of
from portal.work.run.results.use import RunUse, run_use
from portal.work.run.tables.points import RunPointTable

from .runs import RUN_ID, OwnerQuery, RunAction

MOST = 1_000  # jobs


class RunUseOverTime(RunAction):
    """Use of a run's jobs."""

    path = "runs/{run}/use"
    parameters = {"run": RUN_ID}

    @Operation("GPU and memory use of one of your runs over time.", query=OwnerQuery)
    async def on_get(self, run: str) -> RunUse:
        """Return the mean and the spread of the jobs that ran its points last, at most the newest
        1,000; for some weeks after their end."""
        seen_run = await self.seen(run)
        jobs = await self.parts.store.table(RunPointTable).jobs(seen_run.user, seen_run.id, MOST)
        end = time.time() if seen_run.ended_at is None else seen_run.ended_at
        uses = await uses_of(self.parts, jobs, seen_run.created_at, end)
        return await asyncio.to_thread(run_use, uses)


ENDPOINTS = (RunUseOverTime,)
