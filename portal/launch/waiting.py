"""The queue as an estimate needs it, made once for each answer of Slurm: with ten thousand jobs,
each choice on a launch page would otherwise go through all of them some ten times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..models.cluster.cluster import ClusterSnapshot, Job, JobState

# Reasons (squeue(1)) for which slurmctld passes a waiting job over and starts those behind it.
_PASSED = (
    *("Dependency", "BeginTime", "JobHeldUser", "JobHeldAdmin", "Assoc", "QOS"),
    *("PartitionTimeLimit", "PartitionNodeLimit", "Reservation", "BadConstraints"),
)
_LIMIT = ("Assoc", "QOS")


class Queue(NamedTuple):
    """Summary of a queue."""

    turns: frozenset[str]  # partitions in which a job waits for its turn
    passed: frozenset[str]  # partitions with a job that is passed over
    # The latest start that Slurm expects, by partition, GPU type ("": the job names none) and
    # whether it asks for GPUs.
    expected: Mapping[tuple[str, str, bool], float]
    running: tuple[Job, ...]  # the next one to end first, those without an end last
    limited: Mapping[str, tuple[Job, ...]]  # jobs that wait for a limit, by person
    expecting: Mapping[str, Sequence[Job]]  # jobs whose start Slurm expects, by partition
    # By node, what running jobs release: when (Unix seconds, rising), GPUs, CPUs.
    released: Mapping[str, Sequence[tuple[float, int, int]]]


_made: list[tuple[Mapping[str, Job], Queue]] = []  # of the last two snapshots


def queue_of(snapshot: ClusterSnapshot) -> Queue:
    """Return the queue of a snapshot."""
    for jobs, queue in _made:
        if jobs is snapshot.jobs:
            return queue
    queue = _queue(snapshot.jobs)
    _made.insert(0, (snapshot.jobs, queue))
    del _made[2:]
    return queue


def _queue(jobs: Mapping[str, Job]) -> Queue:
    turns, passed = set(), set()
    expected: dict[tuple[str, str, bool], float] = {}
    limited: dict[str, tuple[Job, ...]] = {}
    expecting: dict[str, list[Job]] = {}
    for job in jobs.values():
        if job.state is not JobState.PENDING:
            continue
        names = job.partition.split(",")
        if job.reason.startswith(_PASSED):
            passed.update(names)
        elif job.priority != 0:
            turns.update(names)
        if job.reason.startswith(_LIMIT):
            limited[job.user] = (*limited.get(job.user, ()), job)
        if job.start_time:
            for name in names:
                key = (name, job.gpu_type, bool(job.gpus))
                expected[key] = max(expected.get(key, 0.0), job.start_time)
                expecting.setdefault(name, []).append(job)
    running = [job for job in jobs.values() if job.state.running]
    running.sort(key=lambda job: float("inf") if job.end_time is None else job.end_time)
    return Queue(
        frozenset(turns),
        frozenset(passed),
        expected,
        tuple(running),
        limited,
        expecting,
        _released(running),
    )


def _released(running: Sequence[Job]) -> dict[str, list[tuple[float, int, int]]]:
    released: dict[str, list[tuple[float, int, int]]] = {}
    for job in running:
        if job.end_time is None:
            continue
        for node in job.nodes:
            held = job.gpu_indexes.get(node)
            gpus = job.gpus // len(job.nodes) if held is None else len(held)
            released.setdefault(node, []).append((job.end_time, gpus, job.cpus // len(job.nodes)))
    return released
