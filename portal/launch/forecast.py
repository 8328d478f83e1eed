"""Wait over the next day, from what Slurm has said of running and waiting jobs already. Pure.

An estimate is for a session that is requested now. This is for one that is requested in each of the
next hours, if no further jobs are submitted: running jobs release their nodes at their time limits,
waiting jobs take theirs when Slurm expects them to start, reservations hold theirs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate

from ..models.cluster.cluster import ClusterSnapshot, Node, Partition, Reservation
from ..models.session.estimate import Estimate, Outlook
from ..models.session.resources import Resources
from .limits.limits import suits
from .waiting import queue_of

HOURS = 24
_STEP = 1800.0  # seconds
_STEPS = 96  # two days: who asks at the end of the first may wait for the second
_PER_HOUR = int(3600 / _STEP)


def hourly_waits(
    resources: Resources, snapshot: ClusterSnapshot, estimate: Estimate, now: float
) -> tuple[float | None, ...]:
    """Return the wait in seconds of a session that is requested now, in an hour, … ; None where no
    start within two days is known. () if not even ``estimate``, the one for now, names a start, and
    for a session in a reservation, which does not wait for other jobs."""
    partition = snapshot.partitions.get(resources.partition or "")
    if estimate.starts_at is None or partition is None or resources.reservation:
        return ()
    room = _room(resources, snapshot, partition, now)
    following: list[int | None] = [None] * (_STEPS + 1)
    for step in reversed(range(_STEPS)):
        following[step] = step if room[step] else following[step + 1]
    now_free = estimate.outlook is Outlook.NOW
    first = 0.0 if now_free else max(0.0, estimate.starts_at - now)

    def wait(hour: int) -> float | None:
        requested = hour * 3600.0
        if requested <= first:
            return first - requested  # Slurm's own answer
        step = following[hour * _PER_HOUR]
        return None if step is None else step * _STEP - requested

    return tuple(wait(hour) for hour in range(HOURS))


def _room(
    resources: Resources, snapshot: ClusterSnapshot, partition: Partition, now: float
) -> list[bool]:
    """Return, for each step, whether there is room for the session."""
    seconds = resources.time or partition.usual_time or math.inf
    held = list(snapshot.reservations.values())
    # What each step adds: nodes that fit, and free units (GPUs; CPUs if none are requested) there.
    nodes, units = [0] * _STEPS, [0] * _STEPS
    for name in partition.nodes:
        node = snapshot.nodes.get(name)
        if node is None or not node.usable or not suits(resources, node):
            continue
        gains = list(_gains(resources, snapshot, partition, node, now))
        if any(name in reservation.nodes for reservation in held):
            gains = list(_outside(gains, name, held, seconds, now))
        for step, fits, more in gains:
            nodes[step] += fits
            units[step] += more
    wanted = _wanted(resources, snapshot, partition, seconds, now)
    needed = resources.nodes * (resources.gpus or resources.cpus or 1)
    return [
        fitting >= resources.nodes and free - taken >= needed
        for fitting, free, taken in zip(
            accumulate(nodes), accumulate(units), accumulate(wanted), strict=True
        )
    ]


def _gains(
    resources: Resources,
    snapshot: ClusterSnapshot,
    partition: Partition,
    node: Node,
    now: float,
) -> Iterator[tuple[int, int, int]]:
    """Yield the steps at which a node has more for the session: whether it fits from then on, and
    by how many units more."""
    pools = [pool for pool in node.gpus if resources.gpu_type in (None, pool.type)]
    gpus = sum(max(0, pool.count - pool.used) for pool in pools)
    cpus = node.cpus - node.cpus_allocated
    alone = partition.whole_nodes or partition.one_user
    needed = node.cpus if alone else resources.cpus or 1
    counted = 0
    released = queue_of(snapshot).released.get(node.name, ())
    for end, more_gpus, more_cpus in ((now, 0, 0), *released):
        gpus, cpus = gpus + more_gpus, cpus + more_cpus
        step = max(0, math.ceil((end - now) / _STEP))
        if step >= _STEPS:
            return
        free = gpus if resources.gpus else cpus
        if gpus >= resources.gpus and cpus >= needed and free > counted:
            yield step, int(not counted), free - counted
            counted = free


def _outside(
    gains: Sequence[tuple[int, int, int]],
    name: str,
    held: Sequence[Reservation],
    seconds: float,
    now: float,
) -> Iterator[tuple[int, int, int]]:
    """Yield the gains of a node without the time in which a reservation would end the session."""
    fits, units = [0] * _STEPS, [0] * _STEPS
    for step, first, more in gains:
        fits[step] += first
        units[step] += more
    last = 0, 0
    for step, state in enumerate(zip(accumulate(fits), accumulate(units), strict=True)):
        begins = now + step * _STEP
        if any(
            name in reservation.nodes
            and reservation.start_time < begins + seconds
            and begins < reservation.end_time
            for reservation in held
        ):
            state = 0, 0
        if state != last:
            yield step, state[0] - last[0], state[1] - last[1]
        last = state


def _wanted(
    resources: Resources,
    snapshot: ClusterSnapshot,
    partition: Partition,
    seconds: float,
    now: float,
) -> list[int]:
    """Return by how many units each step changes what waiting jobs take while the session runs."""
    changes = [0] * _STEPS
    for job in queue_of(snapshot).expecting.get(partition.name, ()):
        if resources.gpus and resources.gpu_type and job.gpu_type not in ("", resources.gpu_type):
            continue
        units, start = job.gpus if resources.gpus else job.cpus, job.start_time or now
        end = math.inf if job.time_limit is None else start + job.time_limit
        # From when the session would still run at that start, until the end.
        ahead = start - now - seconds
        first = int(ahead // _STEP) + 1 if ahead >= 0 else 0
        last = math.ceil((end - now) / _STEP) if end < math.inf else _STEPS
        for step, change in ((first, units), (max(first, last), -units)):
            if step < _STEPS:
                changes[step] += change
    return changes
