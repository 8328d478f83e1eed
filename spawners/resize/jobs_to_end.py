"""Jobs that are no session's any more and must be ended, however long Slurm is away."""

from __future__ import annotations

import asyncio

from portal.errors import PortalError

from ..lifecycle.job_watch import JobWatch
from ..session import SessionSpawner

_AGAIN = 5.0  # seconds until Slurm is told once more to end a job


class JobsToEnd:
    """The jobs of one spawner; ``ids`` are those that Slurm has not taken yet."""

    def __init__(self, spawner: SessionSpawner) -> None:
        self.ids: tuple[str, ...] = ()
        self._spawner = spawner
        self._task: asyncio.Task[None] | None = None

    def add(self, job_id: str) -> None:
        """Have a job ended by the next ``end``."""
        self.ids += (job_id,)

    def end(self) -> None:
        """Begin to end them, where that is not under way."""
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
            self.ids = tuple(one for one in self.ids if one != job_id)
            if spawner.job_id:
                await spawner.store_state()
