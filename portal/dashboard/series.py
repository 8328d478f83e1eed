"""Quantities of a view that the history records by name: the queue, waits, power and nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from ..models.cluster.cluster import Node
from ..models.cluster.dashboard import JobItem
from ..models.cluster.history import SeriesKind, SeriesSample
from .builder import Readings
from .jobs import queue_reason
from .view import ClusterView

_MOST_QUEUES = 20  # pairs of partition and reason in a sample; the others are one


def series(view: ClusterView, readings: Readings, since: float) -> Iterator[SeriesSample]:
    """Yield the quantities of a view. ``since``: the time of the sample before (Unix seconds)."""
    yield from _queue(view)
    yield from _waits(view, since)
    yield from _power(view, readings)
    yield from _nodes(view, readings)


def _queue(view: ClusterView) -> Iterator[SeriesSample]:
    jobs = [job for job in view.snapshot.jobs.values() if job.state.pending]
    counts = Counter(f"{job.partition}/{queue_reason(job)}" for job in jobs)
    for name, number in counts.most_common(_MOST_QUEUES):
        yield SeriesSample(kind=SeriesKind.QUEUE, name=name, total=number)
        del counts[name]
    if counts:
        yield SeriesSample(kind=SeriesKind.QUEUE, name="", total=counts.total())


def _waits(view: ClusterView, since: float) -> Iterator[SeriesSample]:
    waits: dict[str, list[float]] = defaultdict(list)
    for job in view.jobs.bare.values():
        if job.start_time is None or job.submit_time is None or not job.gpus:
            continue
        if since < job.start_time <= view.taken_at:
            waits[_type(view, job)].append(max(0.0, job.start_time - job.submit_time))
    for type_, seconds in waits.items():
        yield SeriesSample(kind=SeriesKind.WAIT, name=type_, total=sum(seconds), count=len(seconds))


def _type(view: ClusterView, job: JobItem) -> str:
    """Return the type of the job's GPUs: Slurm may not name it, but the GPUs that it holds."""
    held = (f"{node}/{index}" for node, all_ in job.gpu_indexes.items() for index in all_)
    return job.gpu_type or next((view.gpus[key].type for key in held if key in view.gpus), "gpu")


def _power(view: ClusterView, readings: Readings) -> Iterator[SeriesSample]:
    watts: dict[str, float] = defaultdict(float)
    for (node, index), reading in readings.items():
        gpu = view.gpus.get(f"{node}/{index}")
        if gpu is not None and reading.power is not None:
            watts[gpu.type] += reading.power
    for type_, total in watts.items():
        yield SeriesSample(kind=SeriesKind.POWER, name=type_, total=total)


def _nodes(view: ClusterView, readings: Readings) -> Iterator[SeriesSample]:
    used: dict[str, float] = defaultdict(float)
    measured: set[str] = set()
    for (name, _), reading in readings.items():
        if reading.utilization is not None:
            used[name] += reading.utilization
            measured.add(name)
    for name, node in view.snapshot.nodes.items():
        yield SeriesSample(kind=SeriesKind.HELD, name=name, total=_held(node))
        gpus = sum(pool.count for pool in node.gpus)
        # A GPU that nobody holds may have no reading: it is not used.
        if gpus and (name in measured or (readings and not any(p.used for p in node.gpus))):
            total = min(100.0, used[name] / gpus)
            yield SeriesSample(kind=SeriesKind.USED, name=name, total=total)


def _held(node: Node) -> float:
    gpus = sum(pool.count for pool in node.gpus)
    if gpus:
        return 100 * sum(pool.used for pool in node.gpus) / gpus
    return 100 * node.cpus_allocated / node.cpus if node.cpus else 0.0
