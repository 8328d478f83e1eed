"""``jobs/{id}/use`` and ``sessions/{id}/use``: GPUs and memory of a job over time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

from portal.assembly import Services
from portal.errors import NotAllowed, NotFound
from portal.models import Frozen
from portal.models.cluster.job_use import JobUse
from portal.models.scope import JOBS_READ, SESSIONS_READ
from portal.slurm.control.control import JOB_ID

from ..base.action import Action
from ..base.endpoint import Operation
from ..sessions.actions import SESSION_ID

_SLACK = 120.0  # seconds between Slurm's times and what the service has seen


class UseAnswer(Frozen):
    """Use of a job, oldest first: a part for each start of the portal's service meanwhile."""

    parts: tuple[JobUse, ...]


async def uses_of(
    parts: Services, job_ids: Collection[str], start: float, end: float
) -> list[JobUse]:
    """Return what is known of jobs between two times (Unix seconds), oldest first."""
    first, last = start - _SLACK, end + _SLACK
    stored = await parts.store.job_use.of_jobs(job_ids, first, last)

    def with_newest() -> list[JobUse]:
        uses = {(use.job_id, use.began_at): use for use in stored}
        for job_id in job_ids:
            newest = parts.dashboard.job_uses.use_of(job_id)
            if newest is not None and first <= newest.began_at <= last:
                uses[job_id, newest.began_at] = newest
        return sorted(uses.values(), key=lambda use: use.began_at)

    return await asyncio.to_thread(with_newest)


class _UseEndpoint(Action):
    async def use(self, job_id: str, start: float, end: float) -> UseAnswer:
        """Return what is known of a job between two times (Unix seconds)."""
        return UseAnswer(parts=tuple(await uses_of(self.parts, [job_id], start, end)))


class JobUseEndpoint(_UseEndpoint):
    """Use of a job that runs."""

    path = "jobs/{job_id}/use"
    parameters = {"job_id": JOB_ID}

    @Operation("GPU and memory use of a job over time.")
    async def on_get(self, job_id: str) -> UseAnswer:
        """Return those of your own jobs; of anyone's with custom:portal:jobs:read."""
        target, job = f"job {job_id}", self.view.jobs.get(job_id)
        if job is None:
            raise NotFound(f"Slurm has no pending or running job {job_id}.")
        if job.user != self.person.name and not self.person.may(JOBS_READ):
            error = NotAllowed(f"Job {job_id} is not yours. This requires the scope '{JOBS_READ}'.")
            await self.deny(target, error, job.user or "", f"Needs {JOBS_READ}.")
        now = time.time()
        return await self.use(job_id, now if job.start_time is None else job.start_time, now)


class SessionUseEndpoint(_UseEndpoint):
    """Use of a session's job."""

    path = "sessions/{session_id}/use"
    parameters = {"session_id": SESSION_ID}

    @Operation("GPU and memory use of a session over time.")
    async def on_get(self, session_id: str) -> UseAnswer:
        """Return those of your own or, with custom:portal:sessions:read, of anyone's; for some
        weeks after its end."""
        record = await self.session(session_id, SESSIONS_READ)
        end = time.time() if record.ended_at is None else record.ended_at
        return await self.use(record.job_id, record.submitted_at, end)


ENDPOINTS = (JobUseEndpoint, SessionUseEndpoint)
