"""Use of GPUs and memory by a run and by each of its points over time."""

from __future__ import annotations

import asyncio
import time

from portal.handlers.base.endpoint import Operation
from portal.handlers.cluster.job_use import UseAnswer, uses_of
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


class PointUseOverTime(RunAction):
    """Use of a point's last job."""

    path = "runs/{run}/points/{point}/use"
    parameters = {"run": RUN_ID, "point": r"[0-9]{1,5}"}

    @Operation("GPU and memory use of a point of one of your runs over time.", query=OwnerQuery)
    async def on_get(self, run: str, point: str) -> UseAnswer:
        """Return those of its last job, for some weeks after its end. Each GPU of a job with
        several has a curve of its own."""
        seen_run = await self.seen(run)
        table, number = self.parts.store.table(RunPointTable), int(point)
        found = (await table.of_run(seen_run.user, seen_run.id, [number])).get(number)
        if found is None or not found.job or found.started_at is None:
            return UseAnswer(parts=())
        end = time.time() if found.ended_at is None else found.ended_at
        return UseAnswer(parts=tuple(await uses_of(self.parts, [found.job], found.started_at, end)))


ENDPOINTS = (RunUseOverTime, PointUseOverTime)
