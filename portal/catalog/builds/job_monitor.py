"""Monitoring of an image job until it ends, from its log and from Slurm."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from portal.images.log_protocol import read_events
from portal.models.catalog.image_job import Event, Work, WorkState
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState
from portal.models.log_text import clean
from portal.slurm.jobs.job_log import read_log
from portal.slurm.reasons import pending_words

from .failure_reason import End, end_of

if TYPE_CHECKING:
    from portal.slurm import Cluster

_CHUNK = 1024 * 1024
_AT_ONCE = 16 * _CHUNK  # bytes of a log that one look reads
_LONGEST_LINE = _CHUNK
_KNOWN = 256  # bytes before the offset, which tell whether a log was rewritten
MOST = 65536  # bytes of a log that a page gets at once
_WIDEST = 4000  # characters of a line on a page
MAX_LOG = 64 * _CHUNK  # a job itself writes at most an eighth (portal.images.log_protocol)
# The nodes write the log over the network: the last lines may be seen after the job's end.
LOG_PATIENCE = 10.0


class JobStatus(NamedTuple):
    """State of a job as last seen. ``end``: how it ended; None while it is live."""

    state: WorkState
    step: str
    message: str
    share: float | None
    started_at: float | None
    end: End | None = None
    result: dict[str, Any] | None = None


class Follower:
    """Follower of one job. ``path``: its log; ``nonce`` marks the job's own lines in it."""

    def __init__(self, path: Path, nonce: str, work: Work) -> None:
        self.path, self.nonce, self.work = path, nonce, work
        self.last: Event | None = None
        self.final: Event | None = None
        self.started_at: float | None = None
        self.size = 0
        self._offset = 0
        self._rest = b""
        self._end = b""  # the bytes just before the offset
        self._over_since: float | None = None

    def read(self) -> None:
        """Read what was added to the log. Blocks."""
        known, self.size = read_log(self.path, self._offset - len(self._end), len(self._end))
        if known != self._end:  # truncated, and written anew
            self._offset, self._rest, self._end = 0, b"", b""
        stop = self._offset + _AT_ONCE
        while self._offset < stop and self.final is None:
            data, self.size = read_log(self.path, self._offset, _CHUNK)
            if not data:
                return
            self._offset += len(data)
            self._end = (self._end + data)[-_KNOWN:]
            whole, newline, rest = (self._rest + data).rpartition(b"\n")
            # An unfinished line of this length is no event: events are short.
            self._rest = rest if len(rest) < _LONGEST_LINE else b""
            if newline:
                self._take(whole.decode("utf-8", "replace"))

    def _take(self, text: str) -> None:
        for event in read_events(text, self.nonce)[0]:
            if event.result is not None or event.error:
                self.final = event
                return
            self.last = event

    async def job_state(
        self, job_id: str, cluster: Cluster, snapshot: ClusterSnapshot
    ) -> JobStatus:
        """Return the state of the job. Raises SlurmUnavailable."""
        await asyncio.to_thread(self.read)
        if self.final is not None:
            return self._finished(self.final)
        job = snapshot.jobs.get(job_id)
        if job is None or job.state.ended:
            ended = await cluster.ended_job(job_id)
            if ended is not None:
                return await self._over(ended)
        if job is None or job.state.pending:
            why = f"In Slurm's queue: {pending_words(job.reason)}." if job else "In Slurm's queue."
            return JobStatus(WorkState.WAITING, "queue", why, None, None)
        if self.started_at is None:
            self.started_at = job.start_time or time.time()
        step, message, share = "start", "", None
        if self.last is not None:
            step, message, share = self.last.step, self.last.message, self.last.share
        return JobStatus(
            WorkState.RUNNING, step[:63], clean(message)[:2000], share, self.started_at
        )

    def given_up(self, status: JobStatus, late: bool) -> End | None:
        """Return the end of a job that is to be cancelled: it waits although it is ``late``, or
        its log is too large. None for all others."""
        if status.state is WorkState.WAITING and late:
            return End(
                WorkState.UNKNOWN,
                "The job waited too long in the queue and was cancelled "
                f"(c.BuildScheduler.queue_patience). {status.message}",
            )
        if self.size > MAX_LOG:
            return End(WorkState.FAILED, f"The log is larger than {MAX_LOG // 2**20} MiB.")
        return None

    async def _over(self, job: Job) -> JobStatus:
        """Return the end of a job, but give its last log lines time to arrive."""
        await asyncio.to_thread(self.read)
        if self.final is not None:
            return self._finished(self.final)
        self._over_since = self._over_since or time.monotonic()
        patient = time.monotonic() - self._over_since < LOG_PATIENCE
        if patient and job.state in (JobState.COMPLETED, JobState.FAILED):
            return JobStatus(WorkState.RUNNING, "end", "", None, self.started_at)
        started = self.started_at or job.start_time
        end = end_of(job, self.work)
        return JobStatus(end.state, self._step(), end.message, None, started, end)

    def _finished(self, event: Event) -> JobStatus:
        if event.error:
            state = WorkState.UNKNOWN if event.could_not_run else WorkState.FAILED
            end = End(state, clean(event.error)[:2000])
        else:
            end = End(WorkState.PASSED)
        step = self._step() if event.error else "done"
        return JobStatus(end.state, step, end.message, None, self.started_at, end, event.result)

    def _step(self) -> str:
        """Return the step last reported; "" before the first report."""
        return self.last.step[:63] if self.last is not None else ""


def log_text(path: Path, nonce: str, offset: int) -> tuple[str, int]:
    """Return the plain text of a log from byte ``offset`` on, in whole lines and without the job's
    own, and the next offset. About ``MOST`` bytes at once. Blocks."""
    data, size = read_log(path, offset, MOST)
    if size < offset:  # truncated since: start at the beginning
        offset = 0
        data, size = read_log(path, offset, MOST)
    if len(data) == MOST and b"\n" not in data:  # the job's own lines may be long, and stay whole
        data, _ = read_log(path, offset, _LONGEST_LINE)
        if len(data) == _LONGEST_LINE and b"\n" not in data:
            return "(A line longer than 1 MiB was omitted.)\n", offset + len(data)
    whole, newline, _ = data.rpartition(b"\n")
    if not newline:
        return "", offset  # a line that is being written
    lines = read_events(whole.decode("utf-8", "replace"), nonce)[1]
    text = "".join(f"{line[:_WIDEST]}\n" for line in lines)
    return clean(text), offset + len(whole) + 1
