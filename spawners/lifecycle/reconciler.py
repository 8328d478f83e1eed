"""Watch of sessions that no longer have a spawner, until Slurm says that their jobs are over.

A stop returns when the job is ending; its usage and its end are known a moment later. And a Hub
that was away finds sessions in the database whose end nobody has seen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.errors import PortalError
from portal.launch.kinds import kind_of
from portal.models.cluster.cluster import Job, JobState
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.stop_reason import StopCode
from portal.sessions.ending import Ending, explain
from portal.sessions.log import tail
from portal.slurm import Cluster

from .job_watch import JobWatch

_PAUSES = (0.5, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)  # seconds; then the last one again and again
_FACTS = 3  # looks for the peak memory of an ended job in accounting
_GONE = 6  # looks before a job that nobody knows counts as over: accounting may be away
_AT_ONCE = 4
_EARLY = 0.05  # seconds
_OWN_REASONS = ("start_failed", "failed", "moved")
_WHY_STOPPED = frozenset(StopCode)  # more specific than "stopped"


@dataclass
class _Open:
    record: SessionRecord
    watch: JobWatch
    looks: int = 0
    at: float = 0.0  # time of the next look, time.monotonic()


class Reconciler:
    """Open records, by session. ``note`` is called with each record that is closed."""

    note: Callable[[SessionRecord], None]

    def __init__(self, cluster: Cluster, log: Any) -> None:
        self.cluster, self.log = cluster, log
        self._open: dict[str, _Open] = {}
        self._any = asyncio.Event()
        self._few = asyncio.Semaphore(_AT_ONCE)

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._open

    @property
    def job_ids(self) -> set[str]:
        """Ids of the jobs that are watched."""
        return {entry.record.job_id for entry in self._open.values()}

    def orphans(self, user: str, server: str) -> list[SessionRecord]:
        """Return the sessions of this server that live and that nobody has stopped: the Hub has
        lost them."""
        records = (entry.record for entry in self._open.values())
        return [
            record
            for record in records
            if (record.user, record.server) == (user, server)
            and record.state is not SessionState.ENDED
            and record.job_id
            and not record.ending_code
        ]

    def watch_session(self, record: SessionRecord) -> None:
        """Watch ``record`` from now on. A session that is over already only waits for what
        accounting knows of it."""
        watch = JobWatch(self.cluster, record.job_id, record.account, self.log)
        self._open[record.id] = _Open(record, watch, at=time.monotonic() + _PAUSES[0])
        self._any.set()

    async def run(self) -> None:
        """Look at due sessions, for ever."""
        while True:
            await self._any.wait()
            due = [entry for entry in self._open.values() if entry.at <= time.monotonic() + _EARLY]
            await asyncio.gather(*map(self._look_at, due))
            if not self._open:
                self._any.clear()
                continue
            pause = min(entry.at for entry in self._open.values()) - time.monotonic()
            # No longer than a new session may wait.
            await asyncio.sleep(min(max(pause, _EARLY), _PAUSES[0]))

    async def _look_at(self, entry: _Open) -> None:
        async with self._few:
            entry.looks += 1
            try:
                done = await self._closed(entry)
            except PortalError as error:  # an unanswered query changes nothing
                self.log.debug("Job %s: %s", entry.record.job_id, error)
                done = False
            except Exception:
                self.log.exception("Session %s cannot be closed", entry.record.id)
                done = entry.looks >= _GONE
        entry.at = time.monotonic() + _PAUSES[min(entry.looks, len(_PAUSES) - 1)]
        if done and self._open.get(entry.record.id) is entry:
            del self._open[entry.record.id]

    async def _closed(self, entry: _Open) -> bool:
        """Note what is known of this session; return whether that is everything."""
        record = entry.record
        if not record.job_id:
            return True
        job, over = await entry.watch.job_since(time.monotonic() - 2)
        if not over or job is None:
            return False
        if job.state is JobState.UNKNOWN and entry.looks < _GONE:
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
                about=kind_of(record).words,
            )
            entry.record = ended(record, job, ending)
            self.note(entry.record)
        elif job.peak_memory is not None and record.peak_memory is None:
            entry.record = ended(record, job, ending_of(record))
            self.note(entry.record)
        return entry.record.peak_memory is not None or not job.nodes or entry.looks >= _FACTS


def ended(record: SessionRecord, job: Job, ending: Ending) -> SessionRecord:
    """Return ``record`` after its job's end. Its reason is a failure that the Hub itself has seen,
    or a move to another job; Slurm's comes before "stopped"."""
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
    """Return the ending that the record has already."""
    return Ending(
        code=record.ending_code,
        message=record.ending_message,
        log=record.log,
        job_id=record.job_id,
        by=record.stopped_by,
    )
