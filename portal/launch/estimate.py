"""What a snapshot and the recorded waits say about a start, without asking Slurm. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from ..models.cluster import ClusterSnapshot, JobState, Node
from ..models.estimate import Basis, Estimate, Outlook
from ..models.resources import Resources, memory_mib, time_seconds

# slurmctld takes a job without an end for one that ends in a year (src/slurmctld/job_scheduler.c,
# YEAR_SECONDS): a start that far away means that nobody knows.
NEVER = 300 * 86_400
# Slurm names the second in which it was asked for "now"; a start later than this is a wait.
AT_ONCE = 5.0
# Reasons (squeue(1)) for which slurmctld passes a waiting job over and starts those behind it.
_NO_TURN = (
    *("Dependency", "BeginTime", "JobHeldUser", "JobHeldAdmin", "Assoc", "QOS"),
    *("PartitionTimeLimit", "PartitionNodeLimit", "Reservation", "BadConstraints"),
)
_FEWEST = 3  # recorded waits from which a median is made

NO_END = "Nobody can say when this starts: jobs before it have no end time."


class Wait(NamedTuple):
    """How long a session waited, in seconds, and what it had asked for."""

    partition: str
    gpus: int
    gpu_type: str
    seconds: float


def room_now(resources: Resources, snapshot: ClusterSnapshot, now: float) -> bool:
    """Whether enough nodes have what is asked for free now, and no reservation takes them within
    the time asked for. False where that is not known."""
    partition = snapshot.partitions.get(resources.partition or "")
    if partition is None or partition.state != "UP":
        return False
    names = set(partition.nodes) - _reserved(resources, snapshot, now)
    if resources.reservation:
        held = snapshot.reservations.get(resources.reservation)
        if held is None or not held.start_time <= now < held.end_time:
            return False
        names &= set(held.nodes)
    fitting = [
        name for name in names if name in snapshot.nodes and _fits(resources, snapshot.nodes[name])
    ]
    return len(fitting) >= resources.nodes


def _reserved(resources: Resources, snapshot: ClusterSnapshot, now: float) -> set[str]:
    end = now + (time_seconds(resources.time) if resources.time else 0)
    return {
        node
        for one in snapshot.reservations.values()
        if one.name != resources.reservation and one.start_time < end and one.end_time > now
        for node in one.nodes
    }


def _fits(resources: Resources, node: Node) -> bool:
    memory = memory_mib(resources.memory) if resources.memory else 0
    gpus = sum(
        max(0, pool.count - pool.used)
        for pool in node.gpus
        if resources.gpu_type in (None, pool.type)
    )
    return (
        node.usable
        and node.cpus - node.cpus_allocated >= (resources.cpus or 1)
        and node.memory - node.memory_allocated >= memory
        and gpus >= resources.gpus
    )


def somebody_waits(resources: Resources, snapshot: ClusterSnapshot) -> bool:
    """Whether a job waits for its turn in the same partition: it would get what is free first."""
    return any(
        job.state is JobState.PENDING
        and job.priority != 0
        and not job.reason.startswith(_NO_TURN)
        and resources.partition in job.partition.split(",")
        for job in snapshot.jobs.values()
    )


def counts_too_many(resources: Resources, snapshot: ClusterSnapshot) -> bool:
    """Whether a job waits in the partition that slurmctld passes over. ``--test-only`` counts it as
    if it would start before this one (tests/slurm_outputs/22.05/test-only-behind.stderr)."""
    return any(
        job.state is JobState.PENDING
        and job.reason.startswith(_NO_TURN)
        and resources.partition in job.partition.split(",")
        for job in snapshot.jobs.values()
    )


def starts_now(resources: Resources, snapshot: ClusterSnapshot, now: float) -> bool:
    """Whether the snapshot alone says "now": there is room, and nobody waits for it."""
    return room_now(resources, snapshot, now) and not somebody_waits(resources, snapshot)


def behind_the_queue(resources: Resources, snapshot: ClusterSnapshot, now: float) -> float | None:
    """When Slurm expects the last of the jobs that wait for the like to start; None where none
    waits or it has said nothing."""
    expected = [
        job.start_time
        for job in snapshot.jobs.values()
        if job.state is JobState.PENDING
        and job.start_time
        and resources.partition in job.partition.split(",")
        and bool(job.gpus) == bool(resources.gpus)
        and (resources.gpu_type is None or job.gpu_type in ("", resources.gpu_type))
    ]
    return max(now, *expected) if expected else None


def usual_wait(resources: Resources, waits: Sequence[Wait]) -> float | None:
    """The median wait in seconds of sessions like this one: of the same number of GPUs where there
    are enough, else of any number. None where too few are recorded."""
    like = [
        wait
        for wait in waits
        if wait.partition == resources.partition
        and bool(wait.gpus) == bool(resources.gpus)
        and (not resources.gpus or wait.gpu_type == (resources.gpu_type or ""))
    ]
    same = [wait for wait in like if wait.gpus == resources.gpus]
    for some in (same, like):
        if len(some) >= _FEWEST:
            return statistics.median(wait.seconds for wait in some)
    return None


def from_slurm(start: float, made_at: float) -> Estimate:
    """What Slurm's own time means; ``start`` and ``made_at`` in Unix seconds."""
    if start - made_at > NEVER:
        return Estimate(outlook=Outlook.UNKNOWN, basis=Basis.SLURM, reason=NO_END, made_at=made_at)
    outlook = Outlook.NOW if start - made_at <= AT_ONCE else Outlook.LATER
    return Estimate(outlook=outlook, starts_at=start, basis=Basis.SLURM, made_at=made_at)


def without_slurm(
    resources: Resources, snapshot: ClusterSnapshot, waits: Sequence[Wait], now: float
) -> Estimate:
    """The best that is known when Slurm is not asked; never "now" while somebody waits."""
    if starts_now(resources, snapshot, now):
        return Estimate(outlook=Outlook.NOW, starts_at=now, basis=Basis.SNAPSHOT, made_at=now)
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
        reason="Nobody can say when this starts: what it needs is not free, and no like session is "
        "recorded yet.",
        made_at=now,
    )
