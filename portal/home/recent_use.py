"""Use of the GPUs of each living session in the last half hour, in memory."""

from __future__ import annotations

import logging
import statistics
from collections import deque
from collections.abc import Callable, Sequence

from portal.dashboard import ClusterView
from portal.models.cluster.dashboard import JobItem
from portal.periodic import Periodic

EVERY = 30.0  # seconds between two looks
_KEPT = 60  # looks


class RecentUse:
    """Mean use in percent of each living session's GPUs, at each look at the dashboard's view. It
    begins anew with the service."""

    def __init__(self, view: Callable[[], ClusterView | None], log: logging.Logger) -> None:
        self._view, self._log = view, log
        self._use: dict[str, deque[float]] = {}

    async def run(self) -> None:
        """Look at the view until cancelled."""
        await Periodic("The record of GPU use", self.take_readings, EVERY, self._log).run()

    async def take_readings(self) -> None:
        """Add the use now; forget the sessions that have ended."""
        view = self._view()
        if view is None or view.error:
            return
        use: dict[str, deque[float]] = {}
        for job_id, record in view.sessions.items():
            measured = _use_of(view.jobs.bare.get(job_id), view)
            series = self._use.get(record.id, deque(maxlen=_KEPT))
            if measured is not None:
                series.append(measured)
            if series:
                use[record.id] = series
        self._use = use

    def of_session(self, session_id: str) -> Sequence[float]:
        """Return the use of a session's GPUs in percent, the newest last; () if it is unknown."""
        return tuple(self._use.get(session_id, ()))


def _use_of(job: JobItem | None, view: ClusterView) -> float | None:
    held = job.gpu_indexes.items() if job else ()
    gpus = (view.gpus.get(f"{node}/{index}") for node, indexes in held for index in indexes)
    use = [gpu.utilization for gpu in gpus if gpu is not None and gpu.utilization is not None]
    return statistics.fmean(use) if use else None
