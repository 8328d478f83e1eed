"""Queue of image jobs: what is the same for builds and tests while Slurm has their jobs."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from portal.errors import Conflict
from portal.models.catalog.catalog import Build, EnvironmentTest
from portal.models.catalog.image_job import LIVE, Work, WorkState
from portal.models.cluster.cluster import ClusterSnapshot
from portal.store import Store
from portal.store.catalog.image_work import WorkTable

from .ages import Ages
from .failure_reason import End
from .job_monitor import JobStatus
from .settings import BuildSettings
from .submitting import Submitter

_Row = TypeVar("_Row", Build, EnvironmentTest)


class WorkQueue(ABC, Generic[_Row]):
    """Queue of one scheduler, under the scheduler's settings, with its rows in ``table``.

    ``work`` is the kind of its jobs; ``shown`` are the fields of a row that follow its job.
    """

    work: ClassVar[Work]
    shown: ClassVar[tuple[str, ...]] = ("state", "step", "message", "started_at")

    def __init__(
        self, settings: BuildSettings, store: Store, jobs: Submitter, table: WorkTable[_Row]
    ) -> None:
        self._settings, self._store, self._jobs = settings, store, jobs
        self._table: WorkTable[_Row] = table
        self._ages = Ages()
        self._one = asyncio.Lock()  # serialises adding, which looks for existing rows first
        self._cancelled: dict[int, str] = {}  # id -> who is cancelling it

    async def cancel(self, id: int, by: str) -> _Row:
        """See BuildScheduler.cancel_build and BuildScheduler.cancel_test."""
        row = await self._table.get(id)
        if row.state not in LIVE:
            raise Conflict(f"{self.work.capitalize()} {id} has already finished.")
        self._cancelled[id] = by
        try:
            if row.job_id:
                await self._jobs.drop(row.job_id, await self._user(row))
            return await self._over(row, End(WorkState.CANCELLED, f"Cancelled by {by}."))
        finally:
            self._cancelled.pop(id, None)

    async def _looked(self, row: _Row, snapshot: ClusterSnapshot) -> _Row:
        """Update a row whose job Slurm has; return it as it is then."""
        follower = self._jobs.follower(self.work, row)
        status = await follower.job_state(row.job_id, self._jobs.cluster, snapshot)
        if row.id in self._cancelled:
            return row
        if status.end is not None:
            return await self._over(row, status.end, status)
        late = self._ages.age_of(row.id, row.asked_at) > self._settings.queue_patience
        if end := follower.given_up(status, late):
            await self._jobs.drop(row.job_id, await self._user(row))
            return await self._over(row, end)
        seen = {name: getattr(status, name) for name in self.shown}
        if any(getattr(row, name) != value for name, value in seen.items()):
            return await self._table.change(row.id, **seen)
        return row

    @abstractmethod
    async def _over(self, row: _Row, end: End, status: JobStatus | None = None) -> _Row:
        """Record how the job of a row ended, and what follows from that."""

    async def _user(self, row: _Row) -> str:
        """Return the account that the job of a row runs as; "": the service's."""
        return ""
