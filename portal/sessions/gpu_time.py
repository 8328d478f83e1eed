"""GPU time that jobs held and used, day by day: arithmetic alone, no clock and no I/O.

A job holds its GPUs from its start to its end, whether anybody looks or not: held time is counted
from a *mark* (the end of the time counted before) or from the job's start. *Used* time is known
only since the last look, and only from readings; the rest is not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

from portal.models.cluster.cluster import Job, JobState
from portal.models.cluster.gpu import GpuReading
from portal.models.session.session import SessionRecord
from portal.models.session.usage import JobUsage

Key = tuple[str, int]  # job id and submit time: Slurm may reuse ids
Readings = Mapping[tuple[str, int], GpuReading]
Busy = Callable[[GpuReading], bool | None]
Sessions = Mapping[str, SessionRecord]  # by job id

_DAY = 86_400


def key_of(job: Job) -> Key:
    """Return the key that identifies this job for good."""
    return job.id, int(job.submit_time or 0)


def by_day(start: float, end: float) -> Iterator[tuple[str, float]]:
    """Yield ("2026-11-21", seconds) for each UTC day from ``start`` to ``end``, if any."""
    while start < end:
        day = start // _DAY
        midnight = (day + 1) * _DAY
        yield _day_name(day), min(end, midnight) - start
        start = midnight


@lru_cache(maxsize=64)
def _day_name(day: float) -> str:
    return f"{datetime.fromtimestamp(day * _DAY, UTC):%Y-%m-%d}"


@dataclass
class _Row:
    """GPU-seconds of one job on one day, with its session."""

    job: Job
    session: SessionRecord | None
    held: float = 0.0
    used: float = 0.0
    measured: float = 0.0


@dataclass
class Batch:
    """Changes not yet in the store: rows to add, the new marks, and the jobs that are over."""

    rows: list[JobUsage] = field(default_factory=list)
    marks: dict[Key, float] = field(default_factory=dict)
    closed: set[Key] = field(default_factory=set)

    @property
    def empty(self) -> bool:
        return not (self.rows or self.marks or self.closed)


class GpuTime:
    """Marks of the open jobs, and what was counted since the last call of ``take``.

    ``marks``: time up to which each open job is counted; ``looked_at``: time of the last look at
    Slurm, None: never. Times are Unix seconds. ``reach``: seconds for which one look or one
    reading is valid; a longer gap is not measured.
    """

    def __init__(
        self, marks: Mapping[Key, float], looked_at: float | None, reach: float = 120.0
    ) -> None:
        self.marks = dict(marks)
        self.looked_at = looked_at
        self.reach = reach
        self.remember = False  # ends are remembered: accounting may name them again
        self._last: float | None = None  # the last look of this process
        self._sessions: dict[Key, SessionRecord] = {}  # of open jobs
        self._rows: dict[tuple[str, int, str], _Row] = {}
        self._moved: set[Key] = set()
        self._closed: set[Key] = set()
        self._ended: set[Key] = set()  # counted to their end; Slurm may name them again

    def shift(self, seconds: float) -> None:
        """Shift the marks after the clock was set by ``seconds``: these are not counted."""
        self.marks = {key: mark + seconds for key, mark in self.marks.items()}
        self._moved |= set(self.marks)
        if self.looked_at is not None:
            self.looked_at += seconds
        self._last = None

    def count_until(
        self, jobs: Mapping[str, Job], at: float, readings: Readings, busy: Busy, sessions: Sessions
    ) -> set[Key]:
        """Count up to ``at``, the time at which Slurm was asked for ``jobs``.

        Returns the open jobs that Slurm does not name any more: accounting may know how they ended
        (``end``). A suspended job's time is not counted.
        """
        last = self._last
        if last is not None and not 0 <= at - last <= self.reach:
            last = None
        living: set[Key] = set()
        ended: set[Key] = set()
        for job in jobs.values():
            key = key_of(job)
            if not job.gpus and key not in self.marks:
                continue
            state = job.state
            if state is JobState.SUSPENDED:
                living.add(key)
                self._mark(key, at)
            elif state.running:
                living.add(key)
                self._running(key, job, at, sessions.get(job.id), last, readings, busy)
            elif state.ended:
                ended.add(key)
                self.end(job, sessions.get(job.id), self.looked_at)
            elif state.pending:
                self.close(key)  # it was requeued: its next run counts from its own start
            else:
                living.add(key)  # an unknown state: counted once it is known
        self._ended = ended | self._ended if self.remember else ended
        self.looked_at = self._last = at
        return set(self.marks) - living

    def end(self, job: Job, session: SessionRecord | None, since: float | None) -> None:
        """Count an ended ``job`` up to its end, and close it.

        A job that was not open is counted only if it ended after ``since`` (None: never) and was
        not counted before.
        """
        key = key_of(job)
        mark = self.marks.get(key)
        start, end = job.start_time, job.end_time
        ours = mark is not None or (since is not None and end is not None and end > since)
        if ours and key not in self._ended and start is not None and end is not None:
            for day, seconds in by_day(max(mark or 0.0, start), end):
                self._row(key, job, day, session).held += job.gpus * seconds
        self._ended.add(key)
        self.close(key)

    def close(self, key: Key) -> None:
        """Close a job that holds nothing any more; what was counted stays."""
        self._sessions.pop(key, None)
        if self.marks.pop(key, None) is not None:
            self._closed.add(key)

    def take(self) -> Batch:
        """Return what was counted since the last call, and forget it."""
        batch = Batch(
            rows=[_usage(key, row) for key, row in self._rows.items()],
            marks={key: self.marks[key] for key in self._moved if key in self.marks},
            closed=self._closed - set(self.marks),
        )
        self._rows, self._moved, self._closed = {}, set(), set()
        return batch

    def _running(
        self,
        key: Key,
        job: Job,
        at: float,
        session: SessionRecord | None,
        last: float | None,
        readings: Readings,
        busy: Busy,
    ) -> None:
        if job.start_time is None:
            return
        # A running job's end is that of its time limit: no clock can make it hold more than that.
        end = at if job.end_time is None else min(at, job.end_time)
        start = max(self.marks.get(key, 0.0), job.start_time)
        if start >= end:
            return
        for day, seconds in by_day(start, end):
            self._row(key, job, day, session).held += job.gpus * seconds
        self._mark(key, end)
        if last is None:
            return
        measured, used = self._busy(job, at, readings, busy)
        if measured:
            for day, seconds in by_day(max(start, last), end):
                row = self._row(key, job, day, session)
                row.measured += measured * seconds
                row.used += used * seconds

    def _busy(self, job: Job, at: float, readings: Readings, busy: Busy) -> tuple[int, int]:
        """Return how many of the job's GPUs have a usable reading, and how many are busy."""
        measured = used = 0
        # A reading from before the job's start is about the job before it.
        oldest = max(job.start_time or 0.0, at - self.reach)
        for node, indexes in job.gpu_indexes.items():
            for index in indexes:
                reading = readings.get((node, index))
                if reading is None or not oldest <= reading.at <= at + self.reach:
                    continue
                is_busy = busy(reading)
                if is_busy is not None:
                    measured += 1
                    used += is_busy
        return measured, used

    def _row(self, key: Key, job: Job, day: str, session: SessionRecord | None) -> _Row:
        if session is None:
            session = self._sessions.get(key)
        else:
            self._sessions[key] = session
        row = self._rows.get((*key, day))
        if row is None:
            row = self._rows[(*key, day)] = _Row(job, session)
        elif row.session is None:
            row.session = session
        return row

    def _mark(self, key: Key, until: float) -> None:
        if until > self.marks.get(key, 0.0):
            self.marks[key] = until
            self._moved.add(key)


def _usage(key: tuple[str, int, str], row: _Row) -> JobUsage:
    job, session = row.job, row.session
    job_id, submitted_at, day = key
    # Without pydantic's validation: there may be thousands, and every value is made right here.
    return JobUsage.model_construct(
        job_id=job_id,
        submitted_at=submitted_at,
        day=day,
        user=session.user if session else job.user,
        account=job.account,
        groups=session.groups if session else (),
        environment=session.environment if session else "",
        course=session.space if session else "",
        session_id=session.id if session else "",
        gpus=job.gpus,
        held=row.held,
        used=row.used,
        measured=row.measured,
    )
