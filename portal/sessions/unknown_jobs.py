"""Jobs with the portal's mark that a Hub does not know, told from those that it does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from portal.models.cluster.array import array_id, whole_job
from portal.models.cluster.cluster import Job, JobState

_MARK = "portal"  # of the comment of each session's job: portal:ENVIRONMENT:SERVER
_MOST_OF_USER = 20  # anybody can write such a comment


class Known(NamedTuple):
    """Jobs and starts that the Hub knows: ``jobs``, the ids of its sessions' jobs, and the servers
    that it ``starts``, by user and name; ``own``: user, server and job of those that have one."""

    jobs: Collection[str]
    starts: Collection[tuple[str, str]]
    own: Collection[tuple[str, str, str]] = ()


def job_ids_of(state: Any) -> set[str]:
    """Return the ids of jobs in a spawner's state: its own, and those of a move."""
    ids: set[str] = set()
    if isinstance(state, dict):
        for key, value in state.items():
            ids |= {str(value)} if key == "job_id" else job_ids_of(value)
    return ids


def server_of(job: Job, logs: str) -> str | None:
    """Return the server whose job this is by its mark and by its log, whose path begins with
    ``logs``; None if it is no job of this Hub."""
    mark = job.comment.split(":")
    ours = len(mark) == 3 and mark[0] == _MARK and job.stdout.startswith(logs)
    return mark[2] if ours else None


def orphan_jobs(jobs: Iterable[Job], known: Known, logs: str, before: float) -> list[Job]:
    """Return the jobs, an array once, that carry the portal's mark, were submitted ``before`` (Unix
    seconds), live, and are not known."""
    found: dict[str, Job] = {}
    users: dict[str, int] = {}
    for job in jobs:
        id_, server = array_id(job.id), server_of(job, logs)
        if server is None or job.state.ended or id_ in known.jobs:
            continue
        if (
            (job.user, server) in known.starts
            or job.user.isdigit()
            or (job.submit_time or before) >= before
        ):
            continue
        if id_ not in found:
            users[job.user] = users.get(job.user, 0) + 1
            if users[job.user] > _MOST_OF_USER:
                continue
        if id_ not in found or job.state.running:
            found[id_] = job
    return list(found.values())


def served_by(known: Known, jobs: Mapping[str, Job]) -> set[tuple[str, str]]:
    """Return user and name of the servers whose jobs the Hub knows and Slurm has alive."""
    return {(user, server) for user, server, id_ in known.own if _lives(jobs, id_)}


def _lives(jobs: Mapping[str, Job], job_id: str) -> bool:
    job = whole_job(jobs, job_id)
    return job is not None and not job.state.ended and job.state is not JobState.COMPLETING
