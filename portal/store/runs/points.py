"""Points of runs that have reported, or whose run has ended; all others wait, and have no row.
Written by the service only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, case, delete, func, or_, select, text

from portal.models.session.run import PointState, RunDrift, RunPoint

from ..engine.columns import COUNT, NAME, TEXT, TIME, Json, filled, keyed, keys, optional
from ..engine.listing import moment
from ..engine.rows import ModelTable
from .runs import RunKey, runs
from .shares import run_shares

run_points = keyed(
    "run_points",
    *keys(NAME, "user", "run"),
    *keys(COUNT, "number", autoincrement=False),
    *filled(NAME, "state", "job"),
    *filled(COUNT, "attempt"),
    *optional(COUNT, "cell", "cells"),
    *filled(Json, "metrics"),
    *filled(Json, "drift", server_default=text("'[]'")),
    *optional(TIME, "started_at", "ended_at"),
    *filled(TEXT, "message"),
)
# What a point itself says of its end stays, until a later attempt reports.
_SAID = (PointState.SUCCEEDED, PointState.FAILED)
_NEWEST = ("state", "job", "attempt", "cell", "cells", "metrics", "drift", "ended_at", "message")
_MOST_DRIFT = 50  # differences of a run
_COLUMNS = tuple(RunPoint.model_fields)


class PointKeys(NamedTuple):
    """Values that points are sorted by. Times are Unix seconds."""

    number: int
    state: PointState
    cell: int | None
    metrics: Mapping[str, float]
    started_at: float | None
    ended_at: float | None


class RunPointTable(ModelTable[RunPoint]):
    """The table of points. Every method raises StoreUnavailable."""

    table, model = run_points, RunPoint

    async def save(self, points: Sequence[tuple[RunKey, RunPoint]]) -> None:
        """Insert the newest reports on points, or replace those before; all or none.

        A point that said that it has ended stays as it is, unless the report is of a later
        attempt. Each point may be there once.
        """
        insert = self._database.insert(run_points)
        new, old = insert.excluded, run_points.c
        later = new.attempt > old.attempt
        open_ = [old.state != state.value for state in _SAID]
        began = func.coalesce(old.started_at, new.started_at)
        changed: dict[str, Any] = {name: new[name] for name in _NEWEST}
        changed["started_at"] = case((later, new.started_at), else_=began)
        statement = insert.on_conflict_do_update(
            index_elements=["user", "run", "number"],
            set_=changed,
            where=or_(later, and_(new.attempt == old.attempt, *open_)),
        )
        rows = [{**point.model_dump(), "user": key[0], "run": key[1]} for key, point in points]
        if rows:
            await self._write(statement, rows)

    async def counts(self, user: str, ids: Collection[str]) -> dict[str, dict[PointState, int]]:
        """Return the number of points by run and state; those without a row are left out."""
        columns = run_points.c
        query = (
            select(columns.run, columns.state, func.count())
            .where(columns.user == user, columns.run.in_(list(ids)))
            .group_by(columns.run, columns.state)
        )
        counts: dict[str, dict[PointState, int]] = {}
        for run, state, number in await self._rows_of(query) if ids else ():
            counts.setdefault(run, {})[PointState(state)] = int(number)
        return counts

    async def keys(self, user: str, run: str) -> list[PointKeys]:
        """Return what the points of a run are sorted by, in the order of their numbers."""
        columns = run_points.c
        query = (
            select(*(columns[name] for name in PointKeys._fields))
            .where(columns.user == user, columns.run == run)
            .order_by(columns.number)
        )
        rows = await self._rows_of(query)
        return [PointKeys(*row)._replace(state=PointState(row.state)) for row in rows]

    async def drift(self, user: str, run: str) -> list[RunDrift]:
        """Return the differences of a repetition's points from the original ones, the most frequent
        first; _MOST_DRIFT at most."""
        columns = run_points.c
        query = select(columns.drift).where(columns.user == user, columns.run == run)
        counts = Counter(text for row in await self._rows_of(query) for text in row.drift)
        return [RunDrift(text=text, points=n) for text, n in counts.most_common(_MOST_DRIFT)]

    async def prune(self, before: float) -> int:
        """Delete the runs that ended before ``before`` (Unix seconds), with their points; return
        how many runs."""
        old = runs.c.ended_at < moment(before, "before")
        own = select(runs.c.id).where(
            old, runs.c.user == run_points.c.user, runs.c.id == run_points.c.run
        )

        def remove(to: Connection) -> int:
            to.execute(delete(run_points).where(own.exists()))
            shared = old, runs.c.user == run_shares.c.owner, runs.c.id == run_shares.c.run
            to.execute(delete(run_shares).where(select(runs.c.id).where(*shared).exists()))
            return to.execute(delete(runs).where(old)).rowcount

        return await self._database.run(remove, write=True)

    async def of_run(self, user: str, run: str, numbers: Collection[int]) -> dict[int, RunPoint]:
        """Return points of a run by number; those without a row are left out."""
        columns = run_points.c
        query = select(*(columns[name] for name in _COLUMNS)).where(
            columns.user == user, columns.run == run, columns.number.in_(list(numbers))
        )
        points = await self._models(query) if numbers else []
        return {point.number: point for point in points}
