"""Accounting of GPU time at each look at the cluster, written to the store once a minute.

``gpu_time`` does the counting; this module adds the clock, the store, and the query to Slurm's
accounting about what happened while nobody looked. ``see`` waits for none of these. Counting
itself takes some ten milliseconds for ten thousand jobs, so it runs in a thread, one at a time.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from portal.errors import PortalError
from portal.models.cluster.array import array_id
from portal.models.cluster.cluster import ClusterSnapshot, Job
from portal.models.session.session import SessionRecord

from .gpu_time import Batch, Busy, GpuTime, Key, Readings, Sessions, key_of

if TYPE_CHECKING:
    from portal.store import Store

EndedJobs = Callable[[float], Awaitable[Sequence[Job] | None]]  # Cluster.ended_since

_LOOKS: Key = ("", 0)  # key of the meter's own mark in the store: its last look
T = TypeVar("T")

_PERIOD = 60.0  # seconds between two writes, and between two tries of anything that failed
_LEAP = 3600.0  # seconds by which the clock may be off before it counts as set anew
_TRIES = 30  # queries about an open job that neither slurmctld nor accounting knows
_LAG = 600.0  # seconds that accounting may be behind, or its clock


def uptime() -> float:
    """Return the seconds since boot, including sleep (clock_gettime(2), CLOCK_BOOTTIME)."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class _Gap(NamedTuple):
    """Gap in the looks, or jobs that Slurm forgot: ends after ``since`` may be unknown, and those
    of open jobs after ``oldest`` (Unix seconds)."""

    since: float
    oldest: float


class UsageMeter:
    """Meter of GPU time, one instance per service. ``ended_jobs`` returns the jobs that ended in
    the last so many seconds (None: the site keeps no accounting); ``uptime`` is a clock that is
    never set."""

    def __init__(
        self,
        store: Store,
        log: logging.Logger,
        ended_jobs: EndedJobs | None = None,
        uptime: Callable[[], float] = uptime,
    ) -> None:
        self._store = store
        self._log = log
        self._ended_jobs = ended_jobs
        self._uptime = uptime
        self._time: GpuTime | None = None  # None until the marks are read
        self._clocks: tuple[float, float] | None = None  # the last look: Unix seconds, uptime
        self._gap: _Gap | None = None
        self._missing: dict[Key, int] = {}  # tries, by open job that Slurm does not name
        self._sent: Batch | None = None  # given to the store; whether it arrived is not known
        self._written: float | None = None  # the look up to which everything is in the store
        self._counting = asyncio.Lock()
        # A look whose caller was cancelled (at the service's end) still runs in its thread.
        self._in_thread = threading.Lock()
        self._task: asyncio.Task[None] | None = None
        self._due = float("-inf")  # in uptime
        self._complaint = ""  # the last one, said once

    async def see(
        self,
        snapshot: ClusterSnapshot,
        readings: Readings,
        busy: Busy,
        sessions: Sessions,
        now: float,
    ) -> None:
        """Account what the jobs of ``snapshot`` held and used up to it.

        ``readings`` are those that may be accounted, by node and GPU index; ``sessions`` are by
        job id; ``now`` is the clock (Unix seconds). The same snapshot again changes nothing. Never
        waits for the database or Slurm, and raises none of their errors.
        """
        uptime = self._uptime()
        if self._time is not None and snapshot.taken_at != self._time.looked_at:
            look = (self._time, snapshot, readings, busy, sessions, now, uptime)
            async with self._counting:
                await asyncio.to_thread(self._alone, lambda: self._look(*look))
        if uptime >= self._due and (self._task is None or self._task.done()):
            self._due = uptime + _PERIOD
            self._task = asyncio.create_task(self._work(now))

    async def settle(self) -> None:
        """Wait for the work in the background."""
        if self._task is not None:
            await self._task

    async def close(self, now: float) -> None:
        """Write the rest. If that fails, held time is accounted at the next start; what was
        measured is lost."""
        await self.settle()
        if self._time is not None:
            await self._work(now)

    def _alone(self, work: Callable[[], T]) -> T:
        with self._in_thread:
            return work()

    def _look(
        self,
        gpu_time: GpuTime,
        snapshot: ClusterSnapshot,
        readings: Readings,
        busy: Busy,
        sessions: Sessions,
        now: float,
        uptime: float,
    ) -> None:
        if self._clocks is not None:
            leap = (now - self._clocks[0]) - (uptime - self._clocks[1])
            if abs(leap) > _LEAP:
                self._log.warning(
                    "The clock was changed by %.0f s: usage accounting continues from there", leap
                )
                gpu_time.shift(leap)
        self._clocks = now, uptime
        before, at = gpu_time.looked_at, snapshot.taken_at
        missing = gpu_time.count_until(snapshot.jobs, at, readings, busy, sessions)
        self._missing = {key: self._missing.get(key, 0) for key in missing}
        if before is not None and (missing or at - before > _PERIOD):
            oldest = min([before, *(gpu_time.marks[key] for key in missing)])
            since = before
            if self._gap is not None:
                since, oldest = min(since, self._gap.since), min(oldest, self._gap.oldest)
            self._gap = _Gap(since, oldest)
            gpu_time.remember = True

    async def _work(self, now: float) -> None:
        """Read, query and write in the background: one run at a time, retried a minute later."""
        try:
            if self._time is None:
                self._time = await self._begin(now)
                self._due = float("-inf")  # accounting is queried at once for the first look's gap
            else:
                try:
                    if self._gap is not None:
                        await self._ask_accounting(self._time, self._gap, now)
                finally:
                    await self._write(self._time)
            self._complaint = ""
        except PortalError as error:
            if error.message != self._complaint:
                self._log.warning("Usage will be accounted later: %s", error)
            self._complaint = error.message
        except Exception:
            self._log.exception("Usage could not be accounted")

    async def _begin(self, now: float) -> GpuTime:
        """Begin from the stored marks, so that no time is counted twice, nor lost while the
        service was down."""
        marks = await self._store.usage.accounted_until()
        looked_at = marks.pop(_LOOKS, None)
        # Marks from a clock that was far ahead say nothing: count on from now.
        marks = {key: mark if mark < now + _LEAP else now for key, mark in marks.items()}
        return GpuTime(marks, None if looked_at is None else min(looked_at, now))

    async def _ask_accounting(self, gpu_time: GpuTime, gap: _Gap, now: float) -> None:
        ended = None
        if self._ended_jobs is not None:
            ended = await self._ended_jobs(max(0.0, now - gap.oldest) + _LAG)
        jobs = [job for job in ended or () if job.gpus and self._concerns(gpu_time, gap, job)]
        sessions = await self._sessions_of(jobs)
        async with self._counting:
            for job in jobs:
                self._missing.pop(key_of(job), None)
                gpu_time.end(job, sessions.get(key_of(job)), gap.since)
            for key, tries in list(self._missing.items()):
                self._missing[key] = tries + 1
                if ended is None or tries + 1 >= _TRIES:
                    del self._missing[key]
                    gpu_time.close(key)  # nobody knows when it ended: it stays as it was counted
            if not self._missing and self._gap is gap:
                self._gap = None
                gpu_time.remember = False

    def _concerns(self, gpu_time: GpuTime, gap: _Gap, job: Job) -> bool:
        """Return True if this end is news; jobs that slurmctld still names are counted from it."""
        key = key_of(job)
        if key in gpu_time.marks:
            return key in self._missing
        return job.end_time is not None and job.end_time > gap.since

    async def _sessions_of(self, jobs: Sequence[Job]) -> dict[Key, SessionRecord]:
        """Return the sessions of these jobs."""
        if not jobs:
            return {}
        wanted: dict[str, list[Job]] = {}
        for job in jobs:
            wanted.setdefault(array_id(job.id), []).append(job)
        since = min(job.submit_time or 0.0 for job in jobs) - _LAG
        sessions: dict[Key, SessionRecord] = {}
        offset, total = 0, 1
        while offset < total:
            records, total = await self._store.sessions.find(
                since=since, sort="submitted_at", offset=offset, limit=500
            )
            if not records:
                break
            offset += len(records)
            for record in records:
                for job in wanted.get(record.job_id, ()):
                    near = abs(record.submitted_at - (job.submit_time or 0.0)) < _LAG
                    if near and record.account in (job.user, ""):
                        sessions[key_of(job)] = record
        return sessions

    async def _write(self, gpu_time: GpuTime) -> None:
        """Write everything since the last write, in one transaction with its marks.

        If the answer to a write was lost, the store's own mark of the last look tells whether it
        was done: nothing is added twice.
        """
        if self._sent is not None:
            stored = await self._store.usage.accounted_until()
            if stored.get(_LOOKS) != self._sent.marks[_LOOKS]:
                await self._send(self._sent)
        async with self._counting:
            looked_at = gpu_time.looked_at
            if looked_at is None:
                return
            self._sent = await asyncio.to_thread(self._alone, gpu_time.take)
        if self._sent.empty and looked_at == self._written:
            self._sent = None
            return
        # Each write has another mark than the one before.
        mark = looked_at + 0.001 if looked_at == self._written else looked_at
        self._sent.marks[_LOOKS] = self._written = mark
        await self._send(self._sent)

    async def _send(self, batch: Batch) -> None:
        await self._store.usage.add_seconds(batch.rows, until=batch.marks, closed=batch.closed)
        self._sent = None
