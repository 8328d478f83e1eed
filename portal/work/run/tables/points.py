"""Points of runs that have reported, or whose run has ended; all others wait, and have no row.
Written by the service only."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    JSON,
    Boolean,
    ColumnElement,
    Connection,
    Index,
    Text,
    and_,
    bindparam,
    case,
    cast,
    delete,
    false,
    func,
    or_,
    select,
    text,
    type_coerce,
    update,
)

from portal.models.session.run import PRUNED, PointState, RunDrift, RunPoint
from portal.store.engine.columns import COUNT, NAME, TEXT, TIME, Json, filled, keyed, keys, optional
from portal.store.engine.listing import moment
from portal.store.engine.rows import ModelTable

from .conditions import run_conditions
from .curves import run_curves
from .logged import run_logged
from .outputs import run_outputs
from .runs import RunKey, deleted_runs, runs
from .searches import run_searches, run_trials
from .shares import run_shares, run_team_shares
from .sizes import Sizes, run_sizes

run_points = keyed(
    "run_points",
    *keys(NAME, "user", "run"),
    *keys(COUNT, "number", autoincrement=False),
    *filled(NAME, "state", "job"),
    *filled(COUNT, "attempt"),
    *optional(COUNT, "cell", "cells"),
    *filled(Json, "metrics"),
    *filled(Json, "parameters", server_default="{}"),
    *filled(Json, "drift", server_default=text("'[]'")),
    *optional(TIME, "started_at", "ended_at"),
    *filled(TEXT, "message"),
    *filled(Boolean(), "missing", server_default=false()),
    Index(None, "user", "run", "state"),  # counts read it alone
)
# What a point itself says of its end stays, until a later attempt reports.
_REPORTED = (PointState.SUCCEEDED, PointState.FAILED)
_NEWEST = (
    "state",
    "job",
    "attempt",
    "cell",
    "cells",
    "metrics",
    "parameters",
    "drift",
    "ended_at",
    "message",
    "missing",
)
_COLUMNS = tuple(RunPoint.model_fields)
_MOST_DRIFT = 50  # differences of a run
# Rows that go with their run: tables, each with the column of the run's user.
_OF_RUNS = (
    (run_points, run_points.c.user),
    (run_curves, run_curves.c.user),
    (run_outputs, run_outputs.c.user),
    (run_logged, run_logged.c.user),
    (run_conditions, run_conditions.c.user),
    (run_trials, run_trials.c.user),
    (run_searches, run_searches.c.user),
    (run_shares, run_shares.c.owner),
    (run_team_shares, run_team_shares.c.owner),
    (run_sizes, run_sizes.c.user),
)
_VALUES = ("metrics", "parameters")


def _without_values(row: dict[str, Any]) -> dict[str, Any]:
    message = f"{row['message'][:500]} {_FULL}".strip()
    return {**row, "metrics": {}, "parameters": {}, "drift": [], "message": message}


_FULL = (
    "Its values are in its folder only: the portal keeps no more of this run, or of all your runs. "
    "Delete runs that you no longer need."
)
_SIZES = Sizes(run_points, "metrics", "parameters", "drift", "message", reduced=_without_values)


class PointKeys(NamedTuple):
    """Values that points are sorted by. Times are Unix seconds. ``pruned``: it ended early, by its
    own decision."""

    number: int
    state: PointState
    cell: int | None
    metrics: Mapping[str, float]
    parameters: Mapping[str, Any]
    started_at: float | None
    ended_at: float | None
    pruned: bool = False


class RunPointTable(ModelTable[RunPoint]):
    """The table of points. Every method raises StoreUnavailable."""

    table, model = run_points, RunPoint

    async def save(self, points: Sequence[tuple[RunKey, RunPoint]]) -> None:
        """Insert the newest reports on points, or replace those before; all or none.

        A point that said that it has ended stays as it is, unless the report is of a later
        attempt. Each point may be there once. If a run or a user has stored too much, the report's
        values are left out, and its message says so.
        """
        insert = self._database.insert(run_points)
        new, old = insert.excluded, run_points.c
        later = new.attempt > old.attempt
        open_ = [old.state != state.value for state in _REPORTED]
        began = func.coalesce(old.started_at, new.started_at)
        changed: dict[str, Any] = {name: new[name] for name in _NEWEST}
        changed["started_at"] = case((later, new.started_at), else_=began)
        statement = insert.on_conflict_do_update(
            index_elements=["user", "run", "number"],
            set_=changed,
            where=or_(later, and_(new.attempt == old.attempt, *open_)),
        )
        rows = [{**point.model_dump(), "user": key[0], "run": key[1]} for key, point in points]

        def write(to: Connection) -> None:
            _SIZES.write(to, self._database, rows, lambda rest: to.execute(statement, rest))

        if rows:
            await self._database.run(write, write=True)

    async def wait_again(self, key: RunKey, numbers: Collection[int], message: str) -> None:
        """Make points wait that Slurm has put back into its queue, unless they have succeeded."""
        columns = run_points.c
        ran = columns.state.in_([PointState.RUNNING.value, PointState.FAILED.value])
        own = and_(columns.user == key[0], columns.run == key[1])
        values = {"state": PointState.WAITING.value, "ended_at": None, "message": message}
        this = and_(own, columns.number.in_(list(numbers)), ran)
        await self._write(update(run_points).where(this).values(**values))

    async def explain(self, key: RunKey, number: int, message: str) -> None:
        """Set the sentence about a point that has failed."""
        columns = run_points.c
        own = and_(columns.user == key[0], columns.run == key[1], columns.number == number)
        failed = columns.state == PointState.FAILED.value
        await self._write(update(run_points).where(own, failed).values(message=message))

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

    async def keys(self, user: str, run: str, *, values: bool = True) -> list[PointKeys]:
        """Return what the points of a run are sorted by, in the order of their numbers. Without
        ``values``, metrics and parameters are left out: they cost most."""
        columns = run_points.c
        names = [name for name in PointKeys._fields if values or name not in _VALUES]
        pruned = columns.message.startswith(PRUNED).label("pruned")
        query = (
            select(*(pruned if name == "pruned" else columns[name] for name in names))
            .where(columns.user == user, columns.run == run)
            .order_by(columns.number)
        )
        none: dict[str, Any] = {} if values else {name: {} for name in _VALUES}

        def read(at: Connection) -> list[PointKeys]:
            return [
                PointKeys(**{**none, **row._mapping, "state": PointState(row.state)})
                for row in at.execute(query)
            ]

        return await self._database.run(read)

    async def jobs(self, user: str, run: str, limit: int) -> list[str]:
        """Return the jobs of a run's points, of each its last one; the newest ones of too many."""
        columns = run_points.c
        query = (
            select(columns.job)
            .where(columns.user == user, columns.run == run, columns.job != "")
            .order_by(columns.started_at.desc(), columns.number)
        )
        return [row.job for row in await self._rows_of(query.limit(limit))]

    async def metric_names(self, user: str, ids: Collection[str]) -> dict[str, list[str]]:
        """Return the names of the metrics of each run's first point that has any, by run."""
        columns = run_points.c
        reported = cast(columns.metrics, Text) != "{}"
        query = (
            select(columns.metrics)
            .where(columns.user == user, columns.run == bindparam("of_run"), reported)
            .order_by(columns.number)
            .limit(1)
        )

        def read(at: Connection) -> dict[str, list[str]]:
            first = {id_: at.execute(query, {"of_run": id_}).scalar() for id_ in ids}
            return {id_: list(metrics) for id_, metrics in first.items() if metrics}

        return await self._database.run(read)

    async def bests(
        self, user: str, metrics: Mapping[str, tuple[str, bool]]
    ) -> dict[str, tuple[int, float]]:
        """Return the number and the value of each run's first point with the best value of its
        metric, by run; those without one are left out. ``metrics``: by run, the name, which has no
        quotes and backslashes, and whether its lowest value is best."""
        columns = run_points.c

        def best(at: Connection, run: str) -> Any:
            metric, lowest = metrics[run]
            value = type_coerce(columns.metrics, JSON)[metric].as_float()
            query = (
                select(columns.number, value)
                .where(columns.user == user, columns.run == run, value.is_not(None))
                .order_by(value.asc() if lowest else value.desc(), columns.number)
            )
            return at.execute(query.limit(1)).first()

        def read(at: Connection) -> dict[str, tuple[int, float]]:
            rows = {run: best(at, run) for run in metrics}
            return {run: (row[0], row[1]) for run, row in rows.items() if row is not None}

        return await self._database.run(read)

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
        return await self._remove(runs.c.ended_at < moment(before, "before"))

    async def remove(self, user: str, run: str) -> int:
        """Delete a run that has ended, with its points; return how many runs. It is not restored
        from its folder then."""
        old = and_(runs.c.user == user, runs.c.id == run, runs.c.ended_at.is_not(None))
        note = self._database.insert(deleted_runs).on_conflict_do_nothing()

        def remove(to: Connection) -> int:
            if number := _removed(to, old):
                to.execute(note, {"user": user, "run": run, "deleted_at": time.time()})
            return number

        return await self._database.run(remove, write=True)

    async def _remove(self, old: ColumnElement[bool]) -> int:
        return await self._database.run(lambda to: _removed(to, old), write=True)

    async def of_whole_run(self, user: str, run: str) -> dict[int, RunPoint]:
        """Return all points of a run that have a row, by number."""
        columns = run_points.c
        query = select(*(columns[name] for name in _COLUMNS)).where(
            columns.user == user, columns.run == run
        )
        return {point.number: point for point in await self._models(query)}

    async def of_run(self, user: str, run: str, numbers: Collection[int]) -> dict[int, RunPoint]:
        """Return points of a run by number; those without a row are left out."""
        columns = run_points.c
        query = select(*(columns[name] for name in _COLUMNS)).where(
            columns.user == user, columns.run == run, columns.number.in_(list(numbers))
        )
        points = await self._models(query) if numbers else []
        return {point.number: point for point in points}


def _removed(to: Connection, old: ColumnElement[bool]) -> int:
    """Delete runs with all that goes with them; return how many runs."""
    for table, user in _OF_RUNS:
        own = select(runs.c.id).where(old, runs.c.user == user, runs.c.id == table.c.run)
        to.execute(delete(table).where(own.exists()))
    return to.execute(delete(runs).where(old)).rowcount
