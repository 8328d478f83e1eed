"""Jobs that no longer belong to a session and must be ended, however long Slurm is away."""

from __future__ import annotations

import asyncio

from portal.errors import PortalError

from ..lifecycle.job_watch import JobWatch
from ..session import SessionSpawner

_AGAIN = 5.0  # seconds between two attempts to end a job


class JobsToEnd:
    """Jobs of one spawner; ``ids`` are those whose end Slurm has not accepted yet."""

    def __init__(self, spawner: SessionSpawner) -> None:
        self.ids: tuple[str, ...] = ()
        self._spawner = spawner
        self._task: asyncio.Task[None] | None = None

    def add_job(self, job_id: str) -> None:
        """Add a job for the next ``end``."""
        self.ids += (job_id,)

    def end(self) -> None:
        """Start to end the jobs, unless that is under way."""
        if self.ids and (self._task is None or self._task.done()):
            self._task = asyncio.ensure_future(self._end_all())

    async def _end_all(self) -> None:
        spawner = self._spawner
        while self.ids:
            job_id = self.ids[0]
            watch = JobWatch(spawner.shared.cluster, job_id, spawner.account, spawner.log)
            last = spawner.shared.cluster.last
            job = last.jobs.get(job_id) if last else None
            try:
                await spawner.end_job(watch, gently=job is not None and job.state.running)
            except PortalError as error:
                spawner.log.warning("Job %s cannot be ended yet: %s", job_id, error.message)
                await asyncio.sleep(_AGAIN)
                continue
            self.ids = tuple(other for other in self.ids if other != job_id)
            if spawner.job_id:
                await spawner.store_state()
