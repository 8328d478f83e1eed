"""History of the cluster: one sample a minute, and points that aggregate samples."""

from __future__ import annotations

from enum import StrEnum

from .. import Frozen


class SeriesKind(StrEnum):
    """Kind of a quantity that is recorded by name."""

    QUEUE = "queue"  # waiting jobs, by "PARTITION/QueueReason"; "": those of all other pairs
    WAIT = "wait"  # seconds between submission and start of jobs that have started, by GPU type
    POWER = "power"  # watts of GPUs, by their type
    HELD = "held"  # percent of a node's GPUs (CPUs, if it has no GPUs) that jobs hold, by node
    USED = "used"  # utilisation of a node's GPUs in percent, free ones included, by node


class SeriesSample(Frozen):
    """Sum of ``count`` values of a quantity at the moment of a ClusterSample."""

    kind: SeriesKind
    name: str
    total: float
    count: int = 1


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
    series: tuple[SeriesSample, ...] = ()


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


class ClusterSeries(Frozen):
    """Mean of one quantity over each of a number of equal stretches of time; None: not known."""

    kind: SeriesKind
    name: str
    values: tuple[float | None, ...]


class NodeHours(Frozen):
    """Percent of a node's GPUs (CPUs, if it has no GPUs) that jobs held in each hour, and of its
    GPUs that were used; None: not known."""

    held: tuple[float | None, ...]
    used: tuple[float | None, ...]
