"""Use of GPUs and memory by jobs over time, a row for each job. Written by the service only.

A service that starts again begins a new row for a job that runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from sqlalchemy import delete, select, text

from portal.models.cluster.job_use import JobUse

from ..engine.columns import COUNT, NAME, TIME, Json, filled, keyed, keys
from ..engine.listing import instant
from ..engine.rows import ModelTable

DAYS = 30  # that a job's use is kept after its end

job_use = keyed(
    "job_use",
    *keys(NAME, "job_id"),
    *keys(COUNT, "began_at", autoincrement=False),
    *filled(COUNT, "seconds"),
    *filled(NAME, "sources"),
    *filled(Json, "gpu", "gpu_memory", "memory"),
    *filled(Json, "gpus", server_default=text("'{}'")),
    *filled(TIME, "last_at", index=True),
)


class JobUseTable(ModelTable[JobUse]):
    """The table of jobs' use. Every method raises StoreUnavailable."""

    table = job_use
    model = JobUse

    async def save(self, uses: Sequence[JobUse]) -> None:
        """Write the newest state of each."""
        if uses:
            # In a thread: some thousand jobs would block the event loop.
            rows = await asyncio.to_thread(lambda: [use.model_dump() for use in uses])
            await self._write(self._database.upsert(job_use), rows)

    async def of_job(self, job_id: str, start: float, end: float) -> list[JobUse]:
        """Return what was seen of a job between two times, oldest first: Slurm may use its id
        again later."""
        return await self.of_jobs([job_id], start, end)

    async def of_jobs(self, job_ids: Collection[str], start: float, end: float) -> list[JobUse]:
        """Return the same of several jobs."""
        query = select(job_use).where(
            job_use.c.job_id.in_(list(job_ids)),
            job_use.c.began_at >= int(instant(start, "start")),
            job_use.c.began_at <= instant(end, "end"),
        )
        return await self._models(query.order_by(job_use.c.began_at))

    async def prune(self, now: float) -> int:
        """Delete what has ended long ago; return how many rows."""
        before = instant(now, "now") - DAYS * 86400
        return await self._write(delete(job_use).where(job_use.c.last_at < before))
