"""The order of waiting jobs."""

from __future__ import annotations

from collections.abc import Mapping

from portal.models.cluster.cluster import Job, JobState


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
