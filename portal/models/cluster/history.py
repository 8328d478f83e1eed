"""History of the cluster: one sample a minute, and points that aggregate samples."""

from __future__ import annotations

from .. import Frozen


class ClusterSample(Frozen):
    """Counts at ``at`` (Unix seconds). ``gpus_busy`` is None without telemetry."""

    at: float
    gpus_total: int = 0
    gpus_unusable: int = 0
    gpus_allocated: int = 0
    gpus_busy: int | None = None
    jobs_running: int = 0
    jobs_pending: int = 0
    sessions_running: int = 0
    sessions_pending: int = 0


class HistoryPoint(Frozen):
    """Mean of all samples from ``at`` for ``seconds``; None: there was no sample."""

    at: float
    seconds: int
    gpus_total: float | None = None
    gpus_unusable: float | None = None
    gpus_allocated: float | None = None
    gpus_busy: float | None = None
    jobs_running: float | None = None
    jobs_pending: float | None = None
    sessions_running: float | None = None
    sessions_pending: float | None = None
