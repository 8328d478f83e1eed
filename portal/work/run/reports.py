"""Reports of points, written in batches: all that come while one batch is written are the next.

A thousand points report every few seconds, to a database that writes one transaction at a time.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from typing import Any

from portal.errors import PortalError, TooManyRequests
from portal.models.session.run import Curves, PointState, Run, RunPoint
from portal.models.session.session import SessionRecord
from portal.store import Store
from portal.work.run.tables.curves import RunCurveTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunKey, RunTable

_REMEMBERED = 2_000  # runs whose points report
_MOST_WAITING = 16 * 1024 * 1024  # bytes of a user's reports that wait for the database
_REPORTED = (PointState.SUCCEEDED, PointState.FAILED)
_Waiting = tuple[RunKey, RunPoint, asyncio.Future[None]]


class RunReports:
    """Runs by their session's server, and the newest reports on their points."""

    def __init__(self, store: Store, log: Any) -> None:
        self._store, self._log = store, log
        self._runs: OrderedDict[tuple[str, str], Run] = OrderedDict()
        self._waiting: list[_Waiting] = []
        # By run and number of a point: its attempt, and the newest curves.
        self._curves: dict[tuple[RunKey, int], tuple[int, Curves]] = {}
        self._writing: asyncio.Task[None] | None = None
        self._bytes = Counter[str]()  # of reports that wait, by user

    async def add_run(self, run: Run) -> None:
        """Insert a new run. Raises Conflict if the user has one of this id, StoreUnavailable."""
        await self._store.table(RunTable).add_run(run)
        self._remember(run)

    async def remove(self, run: Run) -> None:
        """Delete a run that was refused. Raises StoreUnavailable."""
        self.forget(run)
        await self._store.table(RunTable).remove(run.user, run.id)

    def forget(self, run: Run) -> None:
        """Read the run anew when its points report again: it has changed."""
        self._runs.pop((run.user, run.server), None)

    async def on_server(self, user: str, server: str) -> Run | None:
        """Return the newest run on a server of a user; None if its session is no run's. A run that
        was launched without the service is added then. Raises StoreUnavailable."""
        run = self._runs.get((user, server))
        if run is None:
            run = await self._store.table(RunTable).on_server(user, server)
            if run is None or run.ended_at is not None:
                run = await self._launched(user, server, run)
        # One that has ended may be started again at any moment.
        if run is not None and run.ended_at is None:
            self._remember(run)
        return run

    async def _launched(self, user: str, server: str, before: Run | None) -> Run | None:
        """Add the run of the newest session on a server, unless it is ``before``."""
        records, _ = await self._store.sessions.find(user=user, server=server, limit=1)
        run = run_of(records[0]) if records else None
        if run is None or (before is not None and before.id == run.id):
            return before
        await self._store.table(RunTable).add_run(run)
        return run

    async def take(
        self, run: Run, point: RunPoint, curves: Curves | None = None, size: int = 0
    ) -> None:
        """Store a report, and the ``curves`` of its metrics unless there are none; return once it
        is. ``size``: bytes of the report. Raises TooManyRequests if too much of the user waits;
        StoreUnavailable."""
        if self._bytes[run.user] + size > _MOST_WAITING:
            raise TooManyRequests("Too many reports of your runs wait. Send this one later.")
        self._bytes[run.user] += size
        try:
            await self._stored(run, point, curves)
        finally:
            self._bytes[run.user] -= size
            if self._bytes[run.user] <= 0:
                del self._bytes[run.user]

    async def _stored(self, run: Run, point: RunPoint, curves: Curves | None) -> None:
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        key = (run.user, run.id)
        self._waiting.append((key, point, stored))
        if curves and point.attempt >= self._curves.get((key, point.number), (0,))[0]:
            self._curves[key, point.number] = (point.attempt, curves)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        await stored

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            curves, self._curves = self._curves, {}
            error: Exception | None = None
            try:
                await self._store.table(RunPointTable).save(newest(batch))
                await self._store.table(RunCurveTable).save(
                    [(key, number, *histories) for (key, number), histories in curves.items()]
                )
            except PortalError as failure:
                error = failure
            except Exception as failure:
                self._log.exception("Reports of points could not be stored")
                error = failure
            for _, _, stored in batch:
                if stored.done():
                    continue
                stored.set_result(None) if error is None else stored.set_exception(error)

    def _remember(self, run: Run) -> None:
        self._runs[run.user, run.server] = run
        self._runs.move_to_end((run.user, run.server))
        while len(self._runs) > _REMEMBERED:
            self._runs.popitem(last=False)


def newest(batch: list[_Waiting]) -> list[tuple[RunKey, RunPoint]]:
    """Return the newest report on each point, by the rules of RunPointTable.save."""
    points: dict[tuple[RunKey, int], RunPoint] = {}
    for key, point, _ in batch:
        before = points.get((key, point.number))
        if before is not None:
            if before.attempt > point.attempt:
                continue
            if before.attempt == point.attempt:
                if before.state in _REPORTED:
                    continue
                point = point.model_copy(update={"started_at": before.started_at})
        points[key, point.number] = point
    return [(key, point) for (key, _), point in points.items()]


def run_of(record: SessionRecord) -> Run | None:
    """Return the run that a session's record tells of; None if it is no run's."""
    asked: Any = record.options.get("run")
    if not isinstance(asked, dict):
        return None
    others = ("run", "environment")
    return Run(
        **asked,
        user=record.user,
        server=record.server,
        environment=record.environment,
        resources={key: value for key, value in record.again.items() if key not in others},
        created_at=record.submitted_at,
        job_id=record.job_id,
    )
