"""Facts about runs that only the files in their folders have, after an outage or a restored
database. Their user's sessions read these files. Written by the service only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, func, insert, select, update

from portal.errors import Conflict
from portal.models.session.run import PointState, Run, RunPoint
from portal.store.engine.rows import ModelTable

from .points import run_points
from .runs import RunKey, deleted_runs, runs, space_of_run

_ITS_RUN = and_(runs.c.user == run_points.c.user, runs.c.id == run_points.c.run)
_READ = ("attempt", "cell", "cells", "metrics", "parameters", "drift", "message")
_OF_END = ("state", "job", "started_at", "ended_at")
RESTORED = "The run was restored from its folder, in which nothing says how this point ended."


class MissingReport(NamedTuple):
    """Point whose last report did not arrive, and the folder of its run."""

    run: str
    folder: str
    number: int


class RunFolderTable(ModelTable[RunPoint]):
    """Points of runs, as their folders have them. Every method raises StoreUnavailable."""

    table, model = run_points, RunPoint

    async def missing(self, user: str, space: str, most: int) -> list[MissingReport]:
        """Return points of a user's runs in ``space`` ("": in none) whose last reports did not
        arrive, those of the newest runs first; ``most`` at most."""
        query = (
            select(run_points.c.run, runs.c.folder, run_points.c.number)
            .join(runs, _ITS_RUN)
            .where(run_points.c.user == user, space_of_run == space, run_points.c.missing)
            .order_by(runs.c.created_at.desc(), run_points.c.number)
        )
        return [MissingReport(*row) for row in await self._rows_of(query.limit(most))]

    async def count(self, user: str, run: str) -> int:
        """Return the number of a run's points whose last reports did not arrive."""
        columns = run_points.c
        query = select(func.count()).where(
            columns.user == user, columns.run == run, columns.missing
        )
        (row,) = await self._rows_of(query)
        return int(row[0])

    async def complete(self, key: RunKey, points: Sequence[tuple[RunPoint, bool]]) -> set[int]:
        """Complete points whose last reports did not arrive by what their folders say; all or none.
        Return the numbers of those that were missing. With each point: True if the folder has its
        end too, which then counts instead of Slurm's."""
        return await self._database.run(lambda to: _complete(to, key, points), write=True)

    async def unknown(self, user: str, ids: Collection[str]) -> list[str]:
        """Return the ids of runs that are neither here nor were deleted by their user."""
        living = select(runs.c.id).where(runs.c.user == user, runs.c.id.in_(list(ids)))
        gone = select(deleted_runs.c.run).where(
            deleted_runs.c.user == user, deleted_runs.c.run.in_(list(ids))
        )
        known = {row[0] for query in (living, gone) for row in await self._rows_of(query)}
        return [id_ for id_ in ids if id_ not in known]

    async def restore(self, run: Run) -> None:
        """Insert a run that has ended; all of its points are missing then. Raises Conflict if the
        user has one of this id."""
        values = run.model_dump()
        missing = RunPoint(
            number=0, state=PointState.LOST, message=RESTORED, ended_at=run.ended_at, missing=True
        )
        own = {**missing.model_dump(), "user": run.user, "run": run.id}
        add = self._database.insert(runs).values(values).on_conflict_do_nothing().returning(runs)

        def write(to: Connection) -> bool:
            if to.execute(add).first() is None:
                return False
            to.execute(insert(run_points), [{**own, "number": n} for n in range(run.points)])
            return True

        if not await self._database.run(write, write=True):
            raise Conflict(f"You already have a run with the id '{run.id}'.")


def _complete(to: Connection, key: RunKey, points: Sequence[tuple[RunPoint, bool]]) -> set[int]:
    columns, completed = run_points.c, set()
    for point, ended in points:
        values: dict[str, Any] = point.model_dump(include={*_READ, *(_OF_END if ended else ())})
        if not ended:  # Slurm's sentence stays, unless there is none
            message = values.pop("message")
            values["message"] = func.coalesce(func.nullif(columns.message, ""), message)
        own = and_(columns.user == key[0], columns.run == key[1], columns.number == point.number)
        newer = columns.attempt <= point.attempt
        statement = update(run_points).where(own, columns.missing, newer)
        if to.execute(statement.values(missing=False, **values)).rowcount:
            completed.add(point.number)
    return completed
