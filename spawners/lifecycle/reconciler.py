"""Sessions that no spawner looks after any more, until Slurm says that their jobs are over.

A stop returns when the job is ending; what it used and how it ended is known a moment later. And
a Hub that was away finds sessions in the database whose end nobody has seen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.errors import PortalError
from portal.models.cluster.cluster import Job, JobState
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.stop_reason import StopCode
from portal.sessions.ending import Ending, explain
from portal.sessions.log import tail
from portal.slurm import Cluster

from .job_watch import JobWatch

_PAUSES = (0.5, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)  # seconds; then the last one again and again
_FACTS = 3  # looks that accounting gets to tell the peak memory of an ended job
_GONE = 6  # looks before a job that nobody knows counts as over: accounting may be away
_AT_ONCE = 4
_EARLY = 0.05  # seconds
_OWN_REASONS = ("start_failed", "failed", "moved")
_WHY_STOPPED = frozenset(StopCode)  # says more than "stopped"


@dataclass
class _Open:
    record: SessionRecord
    watch: JobWatch
    looks: int = 0
    at: float = 0.0  # when to look next, time.monotonic()


class Closing:
    """The open records, by session. ``note`` is called with each that is closed."""

    note: Callable[[SessionRecord], None]

    def __init__(self, cluster: Cluster, log: Any) -> None:
        self.cluster, self.log = cluster, log
        self._open: dict[str, _Open] = {}
        self._any = asyncio.Event()
        self._few = asyncio.Semaphore(_AT_ONCE)

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._open

    def add(self, record: SessionRecord) -> None:
        """Look after ``record`` from now on. One that is over already only waits for what
        accounting knows of it."""
        watch = JobWatch(self.cluster, record.job_id, record.account, self.log)
        self._open[record.id] = _Open(record, watch, at=time.monotonic() + _PAUSES[0])
        self._any.set()

    async def run(self) -> None:
        """Look at what is due, for ever."""
        while True:
            await self._any.wait()
            due = [one for one in self._open.values() if one.at <= time.monotonic() + _EARLY]
            await asyncio.gather(*map(self._look_at, due))
            if not self._open:
                self._any.clear()
                continue
            pause = min(one.at for one in self._open.values()) - time.monotonic()
            # Not longer than a new one may wait.
            await asyncio.sleep(min(max(pause, _EARLY), _PAUSES[0]))

    async def _look_at(self, one: _Open) -> None:
        async with self._few:
            one.looks += 1
            try:
                done = await self._closed(one)
            except PortalError as error:  # an unanswered question changes nothing
                self.log.debug("Job %s: %s", one.record.job_id, error)
                done = False
            except Exception:
                self.log.exception("Session %s cannot be closed", one.record.id)
                done = one.looks >= _GONE
        one.at = time.monotonic() + _PAUSES[min(one.looks, len(_PAUSES) - 1)]
        if done and self._open.get(one.record.id) is one:
            del self._open[one.record.id]

    async def _closed(self, one: _Open) -> bool:
        """Whether everything is known of this session now; notes what is."""
        record = one.record
        if not record.job_id:
            return True
        job, over = await one.watch.look(time.monotonic() - 2)
        if not over or job is None:
            return False
        if job.state is JobState.UNKNOWN and one.looks < _GONE:
            return False
        if record.state is not SessionState.ENDED:
            log = await asyncio.to_thread(tail, Path(record.log_path)) if record.log_path else ""
            ending = explain(
                job,
                log,
                stopped=bool(record.stopped_by) or record.ending_code == "stopped",
                ready=record.ready_at is not None,
                stopped_by=record.stopped_by,
                owner=record.user,
            )
            one.record = ended(record, job, ending)
            self.note(one.record)
        elif job.peak_memory is not None and record.peak_memory is None:
            one.record = ended(record, job, ending_of(record))
            self.note(one.record)
        return one.record.peak_memory is not None or not job.nodes or one.looks >= _FACTS


def ended(record: SessionRecord, job: Job, ending: Ending) -> SessionRecord:
    """``record`` after its job's end. A failure that the Hub itself has seen is its reason, and a
    move to another job; what Slurm says comes before "stopped"."""
    own = (
        record.ending_code in _OWN_REASONS
        or record.state is SessionState.ENDED
        or (record.ending_code in _WHY_STOPPED and ending.code == "stopped")
    )
    return record.model_copy(
        update={
            "state": SessionState.ENDED,
            # Slurm's times are whole seconds.
            "ended_at": record.ended_at or max(job.end_time or time.time(), record.ready_at or 0),
            "started_at": record.started_at or (job.start_time if job.nodes else None),
            "nodes": job.nodes or record.nodes,
            "exit_code": record.exit_code if job.exit_code is None else job.exit_code,
            "peak_memory": record.peak_memory if job.peak_memory is None else job.peak_memory,
            "time_limit": record.time_limit if job.time_limit is None else job.time_limit,
            "ending_code": record.ending_code if own else ending.code,
            "ending_message": record.ending_message if own else ending.message,
            "stopped_by": record.stopped_by or ("" if own else ending.by),
            "log": ending.log or record.log,
        }
    )


def ending_of(record: SessionRecord) -> Ending:
    """What the record already says."""
    return Ending(
        code=record.ending_code,
        message=record.ending_message,
        log=record.log,
        job_id=record.job_id,
        by=record.stopped_by,
    )
