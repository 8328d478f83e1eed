"""Follow-up of runs: their jobs, and their ends, which their sessions have."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from portal.errors import PortalError
from portal.models.cluster.cluster import ClusterSnapshot, Job
from portal.models.session.run import FINAL, PointState, Run, RunPoint
from portal.models.session.session import SessionRecord, SessionState
from portal.periodic import Periodic
from portal.slurm import Cluster
from portal.store import Store
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunKey, RunTable
from portal.work.run.tables.searches import RunSearchTable

from .endings import ended_point, without_record
from .launches.chains import Chains, never_started
from .living import LivingRuns
from .reports import RunReports

_EVERY = 5.0  # seconds
_LOOKS = 12  # at a run that has ended, until accounting is complete
_UNSTARTED = 900.0  # seconds after which a run without a session has failed to start
_DAY = 86_400.0
_AT_ONCE = 1_000  # points that are written in one transaction


class View(Protocol):
    """Part of the dashboard's view that this needs."""

    @property
    def sessions(self) -> Mapping[str, SessionRecord]:
        """Living sessions by job id."""

    @property
    def snapshot(self) -> ClusterSnapshot:
        """State of the cluster."""


class RunFollower:
    """Task of the service that brings the runs in the database up to date."""

    def __init__(
        self,
        store: Store,
        cluster: Cluster,
        reports: RunReports,
        view: Callable[[], View | None],
        log: Any,
        living: LivingRuns,
    ) -> None:
        self._store, self._cluster, self._reports = store, cluster, reports
        self._view, self._log, self._chains = view, log, Chains(store)
        self._looks: dict[RunKey, int] = {}
        self._living = living
        self._prune_at = 0.0  # in time.monotonic()

    async def run(self) -> None:
        """Update the runs until cancelled."""
        # Quiet: the next look finds what this one did not.
        await Periodic("The run follower", self._look, _EVERY, self._log, level=logging.DEBUG).run()

    async def _look(self) -> None:
        await self.follow_runs()
        await self._prune()

    async def follow_runs(self) -> None:
        """Note the jobs of the living runs, and end those whose session has ended. Raises
        StoreUnavailable."""
        runs = await self._store.table(RunTable).living()
        view = self._view()
        sessions = view.sessions.values() if view is not None else ()
        living = {(record.user, record.server): record for record in sessions}
        jobs: dict[RunKey, str] = {}
        self._living.see(view.snapshot if view is not None else None)
        for run in runs:
            record = await self._record(run, living.get((run.user, run.server)))
            if record is not None and record.job_id and record.job_id != run.job_id:
                jobs[run.user, run.id] = record.job_id
            if record is not None and run.folder.startswith("~/"):
                await self._store.table(RunTable).note_folder(
                    run.user, run.id, folder_of(record, run)
                )
            if record is None and time.time() - run.begun_at > _UNSTARTED:
                await self._end(run, run.begun_at)
            elif record is not None and record.state is SessionState.ENDED:
                await self._finish(run, record)
            elif record is not None and (at := await self._living.follow(run, record)):
                await self._end(run, at)
        await self._store.table(RunTable).note_jobs(jobs)

    async def _record(self, run: Run, seen: SessionRecord | None) -> SessionRecord | None:
        """Return the run's session; None while there is none. ``seen``: in the dashboard."""
        if seen is None or seen.state is SessionState.ENDED or not is_of(seen, run):
            records, _ = await self._store.sessions.find(user=run.user, server=run.server, limit=1)
            seen = records[0] if records else None
        return seen if seen is not None and is_of(seen, run) else None

    async def _finish(self, run: Run, record: SessionRecord) -> None:
        """Store the ends of points that did not report theirs, and end the run; later, if
        accounting does not know them yet."""
        key = (run.user, run.id)
        keys = await self._store.table(RunPointTable).keys(*key, values=False)
        reported_numbers = {point.number for point in keys if point.state in FINAL}
        missing = [number for number in range(run.points) if number not in reported_numbers]
        reason = ""
        if missing:
            looks = self._looks[key] = self._looks.get(key, 0) + 1
            tasks = await self._tasks(record)
            chained = never_started(run, record, [point.state for point in keys])
            known = tasks.keys() >= set(missing) and not (
                chained and await self._chains.undecided(run)
            )
            if looks < _LOOKS and not known:
                return
            reason = await self._chains.why_not(run) if chained else ""
            await self._say(run, record, missing, tasks, reason)
        await self._end(run, record.ended_at or time.time(), reason)

    async def _tasks(self, record: SessionRecord) -> dict[int, Job]:
        try:
            return await self._cluster.ended_tasks(record.job_id) if record.job_id else {}
        except PortalError as error:
            self._log.info("How the points of job %s ended is unknown: %s", record.job_id, error)
            return {}

    async def _say(
        self,
        run: Run,
        record: SessionRecord,
        missing: list[int],
        tasks: dict[int, Job],
        reason: str,
    ) -> None:
        """Store the ends of the ``missing`` points. ``reason``: of all of them, if it is known."""
        table, key = self._store.table(RunPointTable), (run.user, run.id)
        ended_at = record.ended_at or time.time()
        for at in range(0, len(missing), _AT_ONCE):
            numbers = missing[at : at + _AT_ONCE]
            points = await table.of_run(*key, numbers)
            ends = [
                _end_of(points.get(n) or RunPoint(number=n), tasks, ended_at, record.job_id)
                for n in numbers
            ]
            if reason:
                changes = {"message": reason, "missing": False}
                ends = [point.model_copy(update=changes) for point in ends]
            await table.save([(key, point) for point in ends])

    async def _prune(self) -> None:
        """Delete old runs once a day, as the Hub deletes old sessions."""
        days = self._store.sessions_days
        if days and time.monotonic() >= self._prune_at:
            await self._store.table(RunPointTable).prune(time.time() - days * _DAY)
            await self._store.table(RunSearchTable).prune()
            self._prune_at = time.monotonic() + _DAY

    async def _end(self, run: Run, at: float, reason: str = "") -> None:
        await self._store.table(RunTable).end(run.user, run.id, at, reason)
        self._looks.pop((run.user, run.id), None)
        self._reports.forget(run)
        self._living.forget((run.user, run.id))


def _end_of(point: RunPoint, tasks: dict[int, Job], ended_at: float, job_id: str) -> RunPoint:
    """Return the end of a point that did not report one. If accounting has the other tasks, its
    own was cancelled while it waited, unless it has reported that it runs."""
    task = tasks.get(point.number)
    if task is None and tasks and point.state is PointState.WAITING:
        task = without_record(job_id)
    return ended_point(point, task, ended_at)


def folder_of(record: SessionRecord, run: Run) -> str:
    """Return the run's folder as its session has it: the Hub knows the user's home."""
    return str(record.options["run"].get("folder") or run.folder)


def is_of(record: SessionRecord, run: Run) -> bool:
    """Return True if a session is that of the newest launch of a run."""
    asked = record.options.get("run")
    if not isinstance(asked, dict) or asked.get("id") != run.id:
        return False
    return bool(asked.get("attempt", 0) == run.attempt)
