"""Estimate of a start from a snapshot and the recorded waits, without asking Slurm. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from ..models.cluster.cluster import ClusterSnapshot, Node
from ..models.session.estimate import Basis, Estimate, Outlook
from ..models.session.resources import Resources
from .fields import FIELDS
from .limits.limits import suits
from .waiting import queue_of

# slurmctld assumes that a job without an end ends in a year (src/slurmctld/job_scheduler.c,
# YEAR_SECONDS): a start that far away means that nobody knows.
NEVER = 300 * 86_400
# For "now" Slurm names the second in which it was asked; a start later than this is a wait.
AT_ONCE = 5.0
_FEWEST = 3  # recorded waits from which a median is made

_WAKES = "A node is switched on for it first."
NO_END = "Start time unknown: jobs ahead in the queue have no end time."


class Wait(NamedTuple):
    """Time that a session waited, in seconds, and what it had asked for."""

    partition: str
    gpus: int
    gpu_type: str
    seconds: float


def room_now(
    resources: Resources, snapshot: ClusterSnapshot, now: float, asleep: bool = False
) -> bool:
    """Return True if enough nodes have what is asked for free now, and no reservation takes them
    within the time asked for. False if that is not known. ``asleep``: count nodes that have to be
    switched on first, too."""
    partition = snapshot.partitions.get(resources.partition or "")
    if partition is None or partition.state != "UP":
        return False
    names = set(partition.nodes) - _reserved(resources, snapshot, now)
    if resources.reservation:
        held = snapshot.reservations.get(resources.reservation)
        if held is None or not held.start_time <= now < held.end_time:
            return False
        names &= set(held.nodes)
    enough = 0
    for name in names:
        node = snapshot.nodes.get(name)
        fits = node is not None and _fits(resources, node) and (asleep or not node.asleep)
        # Whose jobs are on a node of one user is not looked at.
        alone = partition.whole_nodes or partition.one_user
        enough += fits and not (alone and node and node.cpus_allocated)
        if enough >= resources.nodes:
            return True
    return False


def _reserved(resources: Resources, snapshot: ClusterSnapshot, now: float) -> set[str]:
    partition = snapshot.partitions.get(resources.partition or "")
    time_limit = resources.time or (partition.usual_time if partition else None)
    end = now + (math.inf if time_limit is None else time_limit)
    return {
        node
        for reservation in snapshot.reservations.values()
        if reservation.name != resources.reservation
        and reservation.start_time < end
        and reservation.end_time > now
        for node in reservation.nodes
    }


def _fits(resources: Resources, node: Node) -> bool:
    # The cheap questions first: most nodes of a busy cluster are full.
    if node.cpus - node.cpus_allocated < (resources.cpus or 1):
        return False
    if node.memory - node.memory_allocated < (resources.memory or 0):
        return False
    gpus = sum(max(0, pool.count - pool.used) for pool in node.pools_of(resources.gpu_type))
    return gpus >= resources.gpus and node.usable and suits(resources, node)


def somebody_waits(resources: Resources, snapshot: ClusterSnapshot) -> bool:
    """Return True if a job waits for its turn in the partition: it gets what is free first."""
    return resources.partition in queue_of(snapshot).turns


def counts_too_many(resources: Resources, snapshot: ClusterSnapshot) -> bool:
    """Return True if slurmctld passes over a job that waits in the partition; ``--test-only``
    counts it as if it would start before this one
    (tests/slurm_outputs/22.05/test-only-behind.stderr)."""
    return resources.partition in queue_of(snapshot).passed


def starts_now(resources: Resources, snapshot: ClusterSnapshot, now: float) -> bool:
    """Return True if the snapshot alone says "now": there is room, and nobody waits for it."""
    return not somebody_waits(resources, snapshot) and room_now(resources, snapshot, now)


def woken(
    estimate: Estimate, resources: Resources, snapshot: ClusterSnapshot, now: float
) -> Estimate:
    """Return an estimate that says "now" with the time for switching nodes on, if only those have
    room: Slurm counts them as free."""
    if (
        estimate.outlook is not Outlook.NOW
        or room_now(resources, snapshot, now)
        or not room_now(resources, snapshot, now, asleep=True)
    ):
        return estimate
    names = snapshot.partitions[resources.partition or ""].nodes
    nodes = [snapshot.nodes[name] for name in names if name in snapshot.nodes]
    needed = snapshot.resume_seconds_of(
        node for node in nodes if node.asleep and _fits(resources, node)
    )
    if needed is None:
        reason = f"{_WAKES} How long that takes is not known."
        return Estimate(outlook=Outlook.UNKNOWN, reason=reason, made_at=now)
    return Estimate(
        outlook=Outlook.LATER,
        starts_at=now + needed,
        basis=Basis.SNAPSHOT,
        reason=_WAKES,
        made_at=now,
    )


def behind_the_queue(resources: Resources, snapshot: ClusterSnapshot, now: float) -> float | None:
    """Return the time at which Slurm expects the last of the jobs that wait for the like to start;
    None if none waits or it has said nothing."""
    expected = [
        start
        for (partition, gpu_type, gpus), start in queue_of(snapshot).expected.items()
        if partition == resources.partition
        and gpus == bool(resources.gpus)
        and (resources.gpu_type is None or gpu_type in ("", resources.gpu_type))
    ]
    return max(now, *expected) if expected else None


def usual_wait(resources: Resources, waits: Sequence[Wait]) -> float | None:
    """Return the median wait in seconds of similar sessions: of the same number of GPUs if there
    are enough, else of any number. None if too few are recorded."""
    like = [
        wait
        for wait in waits
        if wait.partition == resources.partition
        and bool(wait.gpus) == bool(resources.gpus)
        and (not resources.gpus or wait.gpu_type == (resources.gpu_type or ""))
    ]
    same = [wait for wait in like if wait.gpus == resources.gpus]
    for sample in (same, like):
        if len(sample) >= _FEWEST:
            return statistics.median(wait.seconds for wait in sample)
    return None


def from_slurm(start: float, made_at: float) -> Estimate:
    """Make an estimate of Slurm's own time; ``start`` and ``made_at`` in Unix seconds."""
    if start - made_at > NEVER:
        return Estimate(outlook=Outlook.UNKNOWN, basis=Basis.SLURM, reason=NO_END, made_at=made_at)
    outlook = Outlook.NOW if start - made_at <= AT_ONCE else Outlook.LATER
    return Estimate(outlook=outlook, starts_at=start, basis=Basis.SLURM, made_at=made_at)


def covers(larger: Resources, resources: Resources) -> bool:
    """Return True if ``larger`` asks for the like and for no less of anything, so that
    ``resources`` start no later."""
    for field in FIELDS:
        ours, theirs = getattr(resources, field.name), getattr(larger, field.name)
        # None is Slurm's own default, which is not known here.
        known = field.size and ours is not None and theirs is not None
        if ours != theirs and not (known and theirs > ours):
            return False
    return True


def without_slurm(
    resources: Resources,
    snapshot: ClusterSnapshot,
    waits: Sequence[Wait],
    now: float,
    latest: float | None = None,
) -> Estimate:
    """Return the best estimate when Slurm is not asked; never "now" while somebody waits.

    ``latest``: time at which Slurm would start something larger, in Unix seconds; None: not known.
    """
    if not somebody_waits(resources, snapshot) and room_now(resources, snapshot, now, asleep=True):
        at_once = Estimate(outlook=Outlook.NOW, starts_at=now, basis=Basis.SNAPSHOT, made_at=now)
        return woken(at_once, resources, snapshot, now)
    if latest is not None and latest - now <= NEVER:
        return Estimate(outlook=Outlook.LATER, starts_at=latest, basis=Basis.LARGER, made_at=now)
    behind = behind_the_queue(resources, snapshot, now)
    if behind is not None and behind - now > NEVER:
        return Estimate(outlook=Outlook.UNKNOWN, basis=Basis.QUEUE, reason=NO_END, made_at=now)
    if behind is not None and behind > now:
        return Estimate(outlook=Outlook.LATER, starts_at=behind, basis=Basis.QUEUE, made_at=now)
    usual = usual_wait(resources, waits)
    if usual is not None:
        return Estimate(
            outlook=Outlook.LATER, starts_at=now + usual, basis=Basis.WAITS, made_at=now
        )
    return Estimate(
        outlook=Outlook.UNKNOWN,
        reason="Start time unknown: the requested resources are not free, and no similar session "
        "is recorded yet.",
        made_at=now,
    )
