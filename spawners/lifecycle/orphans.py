"""Jobs of sessions that the Hub does not know: its database was restored from an older copy, or it
died between sbatch and the job's id. Nobody can log in there any more, since their tokens are lost
too. They get a record, so that the Sessions page shows them and can end them. One whose server has
another job by now is cancelled: Slurm took it late, and the same would be done twice."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from portal.errors import PortalError, SlurmUnavailable
from portal.launch.kinds import USUAL, reserved_for
from portal.models.cluster.array import array_id
from portal.models.cluster.cluster import Job
from portal.models.session.session import SessionRecord, SessionState
from portal.periodic import Periodic
from portal.sessions.unknown_jobs import Known, orphan_jobs, served_by
from portal.slurm import Cluster

from .session_recorder import Recorder

_YOUNG = 45.0  # seconds in which the Hub may still be about to store a job's id
# Seconds until the first looks; then the last one again and again. The third finds what was still
# young at the second.
_PAUSES = (2.0, 60.0, 60.0, 600.0)


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
        served = served_by(known, snapshot.jobs)
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
