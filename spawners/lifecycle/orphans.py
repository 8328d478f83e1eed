"""Jobs of sessions that the Hub does not know: its database was restored from an older copy, or it
died between sbatch and the job's id. Nobody can log in there any more, since their tokens are lost
too. They get a record, so that the Sessions page shows them and can end them. One whose server has
another job by now is cancelled: Slurm took it late, and the same would be done twice."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from portal.errors import PortalError, SlurmUnavailable
from portal.launch.kinds import USUAL, reserved_for
from portal.models.cluster.array import array_id, whole_job
from portal.models.cluster.cluster import Job, JobState
from portal.models.session.session import SessionRecord, SessionState
from portal.periodic import Periodic
from portal.slurm import Cluster

from .session_recorder import Recorder

_MARK = "portal"  # of the comment of each session's job: portal:ENVIRONMENT:SERVER
_YOUNG = 45.0  # seconds in which the Hub may still be about to store a job's id
# Seconds until the first looks; then the last one again and again. The third finds what was still
# young at the second.
_PAUSES = (2.0, 60.0, 60.0, 600.0)
_MOST_OF_USER = 20  # anybody can write such a comment


class Known(NamedTuple):
    """Jobs and starts that the Hub knows: ``jobs``, the ids of its sessions' jobs, and the servers
    that it ``starts``, by user and name; ``own``: user, server and job of those that have one."""

    jobs: Collection[str]
    starts: Collection[tuple[str, str]]
    own: Collection[tuple[str, str, str]] = ()


class Orphans:
    """Search for such jobs. ``known`` returns what the Hub knows now; ``logs``: the beginning of
    the paths of this Hub's logs, by which its jobs differ from another portal's."""

    def __init__(
        self,
        cluster: Cluster,
        recorder: Recorder,
        known: Callable[[], Known],
        logs: str,
        log: Any,
    ) -> None:
        self._cluster, self._recorder, self._known = cluster, recorder, known
        self._logs, self._log = logs, log
        self._began = time.time()

    async def run(self) -> None:
        """Look now and then, for ever."""
        pauses = iter(_PAUSES)

        def pause(last: object) -> float:
            nonlocal pauses
            if isinstance(last, PortalError):
                pauses = iter(_PAUSES[1:])
            return next(pauses, _PAUSES[-1])

        await Periodic(
            "The search for unknown jobs",
            self.find,
            pause,
            self._log,
            level=logging.DEBUG,
            later=True,
        ).run()

    async def find(self) -> None:
        """Record the jobs that nobody knows, and cancel those whose server has another one. Raises
        StoreUnavailable, SlurmUnavailable."""
        snapshot = await self._cluster.snapshot(time.monotonic(), jobs_only=True)
        if snapshot.error:
            raise SlurmUnavailable(snapshot.error)
        recorded = {record.job_id for record in await self._recorder.store.sessions.living()}
        known = self._known()  # last: nothing is awaited until the records are made
        known = known._replace(jobs={*known.jobs, *recorded, *self._recorder.job_ids})
        # What an earlier Hub submitted is in its database by now, or never will be.
        before = max(self._began, time.time() - _YOUNG)
        served = {(user, server) for user, server, id_ in known.own if _lives(snapshot.jobs, id_)}
        second: list[tuple[str, str]] = []
        for job in orphan_jobs(snapshot.jobs.values(), known, self._logs, before):
            record = record_of(job)
            if (record.user, record.server) in served:
                second.append((record.job_id, record.user))
                continue
            self._log.warning(
                "Job %s of %s carries the portal's mark and is not known: its session is '%s'",
                record.job_id, record.user, record.server,
            )  # fmt: skip
            self._recorder.note(record)
            self._recorder.close(record)
        for job_id, user in second:
            self._log.warning(
                "Job %s of %s is cancelled: its launch was lost, and its server has another job",
                job_id, user,
            )  # fmt: skip
            await self._cluster.cancel(job_id, user)


def _lives(jobs: Mapping[str, Job], job_id: str) -> bool:
    job = whole_job(jobs, job_id)
    return job is not None and not job.state.ended and job.state is not JobState.COMPLETING


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


def record_of(job: Job) -> SessionRecord:
    """Return the record of a session of which only its job is known. It is in no space: anybody
    can write such a comment, and would be charged to the space, or hold its room."""
    _, environment, server = job.comment.split(":")
    reserved = reserved_for(server)
    began = job.submit_time or time.time()
    running = job.state.running
    return SessionRecord(
        id=f"job-{array_id(job.id)}-{began:.0f}",  # the same at each start of the Hub
        user=job.user,
        server=server,
        account=job.user,
        environment=environment,
        work=(reserved.kind if reserved else USUAL).name,
        job_id=array_id(job.id),
        state=SessionState.RUNNING if running else SessionState.PENDING,
        submitted_at=began,
        started_at=job.start_time if running else None,
        ready_at=(job.start_time or began) if running else None,
        nodes=job.nodes if running else (),
        log_path=job.stdout,
    )
