"""The order of waiting jobs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from portal.models.cluster.array import ArrayJob
from portal.models.cluster.cluster import Job, JobState

_MOST = 2  # snapshots whose order is remembered


class Queue:
    """Places of waiting jobs in the newest snapshots, each of which is put in order once."""

    def __init__(self) -> None:
        # By the identity of the jobs, which are held so that no others can have it.
        self._ranks: OrderedDict[int, tuple[Mapping[str, Job], dict[str, int]]] = OrderedDict()

    def place(self, job: Job, jobs: Mapping[str, Job]) -> int | None:
        """Return a waiting job's place in its partition's queue, from 1; None for other jobs. An
        array has that of its first task. ``jobs``: of a snapshot."""
        key = id(jobs)
        if key not in self._ranks:
            self._ranks[key] = (jobs, positions(jobs))
            while len(self._ranks) > _MOST:
                self._ranks.popitem(last=False)
        ranks = self._ranks[key][1]
        if not isinstance(job, ArrayJob):
            return ranks.get(job.id)
        prefix = f"{job.id}_"
        places = (rank for id_, rank in ranks.items() if id_.startswith(prefix))
        return min(places, default=None)


def positions(jobs: Mapping[str, Job]) -> dict[str, int]:
    """Return the place of each waiting job in its partition's queue, from 1, by job id.

    Higher priority comes first, then earlier submission, as in slurmctld's main scheduler
    (backfill may start a later job earlier). Held jobs (priority 0) have no place, and a job for
    several partitions takes its best one.
    """
    waiting = [
        job
        for job in jobs.values()
        if job.state is JobState.PENDING and job.priority and not job.reason.startswith("JobHeld")
    ]
    waiting.sort(key=lambda job: (-(job.priority or 0), job.submit_time or 0.0))
    ahead: dict[str, int] = {}
    ranks: dict[str, int] = {}
    for job in waiting:
        places = []
        for partition in job.partition.split(","):
            ahead[partition] = ahead.get(partition, 0) + 1
            places.append(ahead[partition])
        ranks[job.id] = min(places)
    return ranks
