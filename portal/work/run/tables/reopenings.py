"""Reopening of runs that have ended: what did not succeed waits again, in one transaction, so that
of two users who ask at the same moment one is refused. Written by the service only."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, delete, exists, insert, select, update

from portal.errors import Conflict, NotFound
from portal.models.session.point_numbers import compact
from portal.models.session.run import PointState, Run, RunPoint
from portal.store.engine.rows import ModelTable

from .points import run_points
from .runs import runs

_RUNS = "The points of this run have already been started again."


class Reopened(NamedTuple):
    """Run that waits again: as it is now, as it was ``before``, and its ``points`` that had not
    succeeded, as they were; those without a row are left out."""

    run: Run
    before: Run
    points: tuple[RunPoint, ...]


class RunReopenings(ModelTable[Run]):
    """Reopenings, in the tables of runs and points. Every method raises StoreUnavailable."""

    table, model = runs, Run

    async def reopen(self, run: Run, resources: Mapping[str, Any]) -> Reopened:
        """Make the points of ``run`` wait that have not succeeded. ``resources``: those of the next
        launch. Raises Conflict if it has not ended or all have succeeded, NotFound."""
        return await self._database.run(lambda to: self._reopen(to, run, resources), write=True)

    def _reopen(self, to: Connection, run: Run, resources: Mapping[str, Any]) -> Reopened:
        own = and_(runs.c.user == run.user, runs.c.id == run.id)
        row = to.execute(select(runs).where(own).with_for_update()).first()
        if row is None:
            raise NotFound("You have no such run.")
        before = self._made(row)
        if before.ended_at is None:
            raise Conflict("This run has not ended." if before.attempt == run.attempt else _RUNS)
        if before.attempt != run.attempt:
            raise Conflict(_RUNS)
        rows = to.execute(select(run_points).where(_points_of(run))).all()
        points = [RunPoint.model_validate(_values(row)) for row in rows]
        done = {point.number for point in points if point.state is PointState.SUCCEEDED}
        numbers = [number for number in range(run.points) if number not in done]
        if not numbers:
            raise Conflict("All points of this run have succeeded.")
        attempt = max([before.attempt + 1, *(point.attempt for point in points)])
        values = {
            "only": compact(numbers),
            "attempt": attempt,
            "resources": dict(resources),
            "ended_at": None,
            "again_at": time.time(),
            "job_id": "",
        }
        to.execute(update(runs).where(own).values(values))
        left = tuple(point for point in points if point.state is not PointState.SUCCEEDED)
        waiting = RunPoint(number=0, attempt=attempt).model_dump(exclude={"number"})
        others = run_points.c.state != PointState.SUCCEEDED.value
        to.execute(update(run_points).where(_points_of(run), others).values(waiting))
        return Reopened(before.model_copy(update=values), before, left)

    async def take_back(self, reopened: Reopened) -> bool:
        """End a reopened run as it had ended, since its launch was refused; return False if a point
        has reported meanwhile, so that it was not."""
        return await self._database.run(lambda to: self._take_back(to, reopened), write=True)

    def _take_back(self, to: Connection, reopened: Reopened) -> bool:
        run, before = reopened.run, reopened.before
        reported = exists().where(_points_of(run), run_points.c.attempt > run.attempt)
        own = and_(runs.c.user == run.user, runs.c.id == run.id, runs.c.attempt == run.attempt)
        names = ("only", "attempt", "resources", "ended_at", "again_at", "job_id")
        values = before.model_dump(include=set(names))
        back = update(runs).where(own, runs.c.ended_at.is_(None), ~reported).values(values)
        if not to.execute(back).rowcount:
            return False
        others = run_points.c.state != PointState.SUCCEEDED.value
        to.execute(delete(run_points).where(_points_of(run), others))
        rows = [
            {**point.model_dump(), "user": run.user, "run": run.id} for point in reopened.points
        ]
        if rows:
            to.execute(insert(run_points), rows)
        return True


def _points_of(run: Run) -> Any:
    return and_(run_points.c.user == run.user, run_points.c.run == run.id)


def _values(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in RunPoint.model_fields}
