"""History of the cluster: one sample a minute, for its plots."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..errors import PortalError
from ..models.cluster.cluster import ClusterSnapshot
from ..models.cluster.gpu import GpuReading, GpuState
from ..models.cluster.history import ClusterSample
from ..models.cluster.job_use import JobUse
from .builder import Readings
from .series import series
from .view import ClusterView

if TYPE_CHECKING:
    from ..store import Store

_MINUTE = 60
_DAY = 86_400


class History:
    """Writer of samples, which prunes old ones once a day. Nobody waits for the database."""

    def __init__(self, store: Store, log: logging.Logger) -> None:
        self._store, self._log = store, log
        self.seen_at: float | None = None  # time of Slurm's answer at the last sample
        self._minute = -1
        self._pruned_on = -1
        self._writing: asyncio.Task[None] | None = None

    def due(self, view: ClusterView, now: float) -> bool:
        """Return True if this view should become a sample: the first one of each minute without an
        error. A minute in which Slurm did not answer has no sample."""
        return not view.error and int(now // _MINUTE) != self._minute

    def write_sample(
        self, sample: ClusterSample, seen_at: float | None = None, uses: Sequence[JobUse] = ()
    ) -> None:
        """Write the sample of Slurm's answer at ``seen_at``, and the ``uses`` of jobs, in the
        background; they are lost where the database is away."""
        self.seen_at, self._minute = seen_at, int(sample.at // _MINUTE)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(sample, uses))

    async def settle(self) -> None:
        """Wait for the writing."""
        if self._writing is not None:
            await self._writing

    async def close(self, uses: Sequence[JobUse]) -> None:
        """Wait for the writing, and write the ``uses`` of jobs that run."""
        await self.settle()
        try:
            await self._store.job_use.save(uses)
        except PortalError as error:
            self._log.warning("The use of jobs since the last minutes is lost: %s", error)

    async def _write(self, sample: ClusterSample, uses: Sequence[JobUse]) -> None:
        try:
            await self._store.job_use.save(uses)
            await self._store.history.add_samples(sample)
            await self._store.series.add_samples(sample)
            if self._pruned_on != (today := int(sample.at // _DAY)):
                before = sample.at - self._store.history_days * _DAY
                await self._store.history.prune(before)
                await self._store.series.prune(before, sample.at)
                await self._store.job_use.prune(sample.at)
                self._pruned_on = today
        except PortalError as error:
            self._log.warning("A sample of the cluster's history is lost: %s", error)
        except Exception:
            self._log.exception("The history could not be written")


def sample(
    view: ClusterView,
    readings: Readings,
    busy: Callable[[GpuReading], bool | None],
    at: float,
    since: float | None = None,
) -> ClusterSample:
    """Build the sample of a view. ``readings``: those that may be counted, not the sessions' own;
    ``gpus_busy`` is None if there are none. ``since``: the time of Slurm's answer at the sample
    before (Unix seconds)."""
    snapshot = view.snapshot
    counts = view.summary.gpus
    return ClusterSample(
        at=at,
        gpus_total=sum(counts.values()),
        gpus_unusable=counts.get(GpuState.DOWN, 0) + counts.get(GpuState.DRAINED, 0),
        gpus_allocated=_allocated(snapshot),
        gpus_busy=sum(busy(reading) is True for reading in readings.values()) if readings else None,
        jobs_running=view.summary.jobs_running,
        jobs_pending=view.summary.jobs_pending,
        sessions_running=view.summary.sessions_running,
        sessions_pending=view.summary.sessions_pending,
        series=tuple(series(view, readings, view.taken_at - _MINUTE if since is None else since)),
    )


def _allocated(snapshot: ClusterSnapshot) -> int:
    """Return the number of GPUs in use, by the nodes' counts, which are known without indexes."""
    return sum(pool.used for node in snapshot.nodes.values() for pool in node.gpus)
