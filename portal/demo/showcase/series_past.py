"""Quantities by name in the made up past of the cluster: queue, waits, power, use of nodes."""

from __future__ import annotations

import random
from collections.abc import Iterator

from portal.models.cluster.dashboard import QueueReason
from portal.models.cluster.history import SeriesKind, SeriesSample

# GPUs of the demo's nodes (deploy/demo/slurm/nodes.conf), in the order in which they fill up.
_NODES = {"gpu01": ("v100", 4), "gpu02": ("v100", 4), "gpu05": ("t4", 2), "gpu03": ("v100", 4)}
_NODES |= {"gpu06": ("t4", 2), "gpu04": ("v100", 4)}
_REASONS = {
    QueueReason.RESOURCES: 0.5,
    QueueReason.PRIORITY: 0.3,
    QueueReason.LIMIT: 0.2,
}
_WATTS = {"v100": (45, 290), "t4": (12, 70)}  # of a GPU that is idle, and one that is busy


def series_of(
    allocated: int, busy: float, pending: int, chance: random.Random
) -> Iterator[SeriesSample]:
    """Yield the quantities of a moment at which jobs hold so many GPUs, use this share of them, and
    so many jobs wait."""
    for reason, share in _REASONS.items():
        if number := round(share * pending):
            yield _sample(SeriesKind.QUEUE, f"gpu/{reason}", number)
    watts = dict.fromkeys(_WATTS, 0.0)
    for name, (type_, gpus) in _NODES.items():
        held = min(gpus, allocated)
        allocated -= held
        used = held * busy
        idle, full = _WATTS[type_]
        watts[type_] += gpus * idle + used * (full - idle)
        yield _sample(SeriesKind.HELD, name, 100 * held / gpus)
        yield _sample(SeriesKind.USED, name, 100 * used / gpus)
    for number in (1, 2):
        yield _sample(SeriesKind.HELD, f"cpu0{number}", 40 / number + chance.uniform(-8, 8))
    for type_, total in watts.items():
        yield _sample(SeriesKind.POWER, type_, total)
        if chance.random() < 0.1:  # a job that starts every ten minutes
            wait = chance.uniform(5, 60) + 240 * pending * chance.random()
            yield _sample(SeriesKind.WAIT, type_, wait)


def _sample(kind: SeriesKind, name: str, total: float) -> SeriesSample:
    return SeriesSample(kind=kind, name=name, total=total)
