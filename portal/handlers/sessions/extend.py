"""Extension of running sessions: by the session itself, its owner's browser or an admin."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated

from pydantic import Field

from portal.errors import Conflict, NotAllowed, SlurmUnavailable, TooManyRequests
from portal.launch.extending import Running, extended
from portal.launch.kinds import kind_of
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.cluster.cluster import Job
from portal.models.scope import JOBS_MANAGE
from portal.models.session.session import SessionRecord, SessionState
from portal.models.situation import ExtendOffer
from portal.models.words import clock, duration

from ..base.action import Action
from ..base.endpoint import Operation
from ..base.own_session import OwnSession
from .actions import SESSION_ID

_SAME = 60.0  # seconds: Slurm counts in minutes
_PAUSE = 1.0  # seconds between two tries of one session: each asks Slurm anew
_MOST_WAITING = 5
_MOST_TURNS = 2000


class ExtendQueue:
    """Queue for each session: one attempt at a time, with a pause in between."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()
        self._last: dict[str, float] = {}

    @contextlib.asynccontextmanager
    async def take_turn(self, id_: str) -> AsyncIterator[None]:
        """Wait for a turn. Raises TooManyRequests if many wait for the same session already."""
        if self._waiting[id_] >= _MOST_WAITING:
            raise TooManyRequests("This session is already being extended. Try again in a moment.")
        self._waiting[id_] += 1
        try:
            async with self._locks.setdefault(id_, asyncio.Lock()):
                pause = self._last.get(id_, 0.0) + _PAUSE - time.monotonic()
                await asyncio.sleep(max(0.0, pause))
                try:
                    yield
                finally:
                    self._last[id_] = time.monotonic()
        finally:
            self._waiting[id_] -= 1
            if not self._waiting[id_]:
                del self._waiting[id_], self._locks[id_]
            if len(self._last) > _MOST_TURNS:
                self._last.clear()


_turns = ExtendQueue()


class Extension(Frozen):
    """Extension by ``minutes``. ``ends_at``: the end that the asker saw, Unix seconds.

    If it is another by now, nothing is done, so that two windows do not extend it twice.
    """

    minutes: Annotated[int, Field(ge=1, le=10080, strict=True)]
    ends_at: Annotated[float, Field(ge=0, le=32503680000, allow_inf_nan=False)] | None = None


class Extended(Frozen):
    """New end, as Slurm says it, and what can be done from now on."""

    message: str
    ends_at: float
    time_limit: int  # seconds from the start to the end
    extend: ExtendOffer


class ExtendAction(Action):
    """Base class of both: the extension, once it is known whose session it is."""

    async def extend(self, record: SessionRecord) -> Extended:
        """Extend the session, with an entry in the audit log.

        Raises Conflict if it does not run or its end is another by now, InvalidRequest and
        NotAllowed with what is possible, SlurmRefused, SlurmUnavailable.
        """
        async with self.audited(
            AuditAction.EXTEND_SESSION, f"session {record.id}", record.user
        ) as line:
            self._may_extend()
            if record.state is SessionState.ENDED:
                raise Conflict("This session has already ended.")
            if kind_of(record).array:
                raise Conflict("The time limit of a run's points cannot be changed.")
            async with _turns.take_turn(record.id):
                after = await self._extended(record, await self._running(record))
            assert after.end_time is not None  # _extended saw it
            longer = duration(60 * self.body.minutes)
            end = clock(after.end_time, time.time(), zone=True)
            line.detail = f"By {longer}: job {after.id} ends at {end}."
        done = self.done(f"The session now ends at {end}.")
        return Extended(
            message=done.message,
            ends_at=after.end_time,
            time_limit=after.time_limit or 0,
            extend=await self.parts.situations.offer(record, after, self.view.snapshot),
        )

    def _may_extend(self) -> None:
        if not self.parts.extending.allowed and not self.person.may(JOBS_MANAGE):
            raise NotAllowed("Sessions cannot be extended on this site. Ask a portal admin.")

    async def _running(self, record: SessionRecord) -> Running:
        """Return its job, and what limits that, as Slurm has them now.

        After a second somebody else may have changed them, and Slurm itself checks none of it.
        """
        parts, account = self.parts, record.account or record.user
        snapshot, associations, _, _ = await asyncio.gather(
            parts.cluster.snapshot(
                time.monotonic(), jobs_only=False, urgent=True, qos=True, fresh_reservations=True
            ),
            parts.cluster.associations(account),
            parts.catalog.load(),
            parts.situations.expect(record),
        )
        if snapshot.error:
            raise SlurmUnavailable(snapshot.error)
        job = snapshot.jobs.get(record.job_id)
        if job is None or job.user != account:
            raise Conflict("This session has already ended.")
        seen = self.body.ends_at
        if seen is not None and job.end_time is not None and abs(seen - job.end_time) > _SAME:
            end = clock(job.end_time, time.time(), zone=True)
            raise Conflict(
                f"The session's time has changed: it now ends at {end}. Nothing was done."
            )
        return parts.situations.running(record, job, snapshot, associations)

    async def _extended(self, record: SessionRecord, running: Running) -> Job:
        """Extend the job, and return it as it is afterwards."""
        parts, job = self.parts, running.job
        limit = extended(running, self.body.minutes, parts.extending, time.time())
        await parts.control.need("jobs")
        await parts.control.extend(job.id, limit)
        await parts.dashboard.refreshed()
        after = self.view.snapshot.jobs.get(job.id)
        if after is None or after.state.ended:
            raise Conflict("This session has ended in the meantime.")
        if self.view.error or after.end_time is None:
            # Slurm has accepted it, but does not answer now: the pages show the end when it does.
            assert job.end_time is not None
            assert job.time_limit is not None
            end = job.end_time + limit - job.time_limit
            after = job.model_copy(update={"end_time": end, "time_limit": limit})
        return after


class ExtendOwnSession(ExtendAction, OwnSession):
    """Extension of the session that asks."""

    path = "session/extend"

    @Operation("Extend the calling session.", body=Extension, errors=(409, 429))
    async def on_post(self) -> Extended:
        """Use the session's own token only. The answer has the new end, as Slurm tells it."""
        record, _ = await self.own()
        return await self.extend(record)


class ExtendSession(ExtendAction):
    """Extension of one's own session, or with ``custom:portal:jobs:manage`` of anyone's."""

    path = "sessions/{session_id}/extend"
    parameters = {"session_id": SESSION_ID}

    @Operation("Extend a running session.", body=Extension, errors=(409, 429))
    async def on_post(self, session_id: str) -> Extended:
        """Extend your own, or with custom:portal:jobs:manage anyone's.

        Environment, partition, QOS and account limit it, also for admins. The answer has the new
        end.
        """
        record = await self.session(session_id, JOBS_MANAGE, AuditAction.EXTEND_SESSION)
        return await self.extend(record)


ENDPOINTS = (ExtendOwnSession, ExtendSession)
