"""Sizes of what the jobs of runs have stored: whoever has a run's token could fill the database.

Small rows are free: a run has few thousand points. Of larger ones, the bytes of each run are kept,
exactly, in the transactions that write them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, Text, cast, func, literal, select

from portal.store.engine.columns import COUNT, NAME, Json, filled, keyed, keys
from portal.store.engine.database import Database

from .runs import RunKey

run_sizes = keyed("run_sizes", *keys(NAME, "user", "run"), *filled(COUNT, "bytes"))
MIB = 1024 * 1024
MOST_OF_RUN = 64 * MIB
MOST_OF_USER = 256 * MIB  # of all runs that are kept
_SMALL = 2048  # bytes of a row
_TOGETHER = 500  # values of one condition

Row = dict[str, Any]


class Sizes:
    """Writer of one ``table``, with a row for each point, whose ``columns`` can be large.
    ``share``: the part of the limits that the table may use; ``reduced``: returns what is written
    instead of a row beyond them, None: nothing."""

    def __init__(
        self,
        table: Table,
        *columns: str,
        share: float = 1.0,
        reduced: Callable[[Row], Row | None] = lambda row: None,
    ) -> None:
        self._table, self._columns = table, [table.c[name] for name in columns]
        self._share, self._reduced = share, reduced

    def write(
        self,
        to: Connection,
        database: Database,
        rows: Sequence[Row],
        execute: Callable[[list[Row]], object],
    ) -> None:
        """Write rows, each with "user", "run" and "number", within the limits. ``execute`` writes
        those that it gets."""
        by_run: dict[RunKey, list[Row]] = {}
        for row in rows:
            by_run.setdefault((row["user"], row["run"]), []).append(row)
        known = _known(to, {user for user, _ in by_run})
        of_users = Counter[str]()
        for (user, _), size in known.items():
            of_users[user] += size
        rest: list[Row] = []
        before: dict[RunKey, dict[int, int]] = {}
        for key, own in by_run.items():
            if key not in known and all(self._weight(row) <= _SMALL for row in own):
                rest += own
                continue
            before[key] = self._stored(to, key, own)
            of_run = self._share * MOST_OF_RUN - known.get(key, 0)
            of_user = self._share * MOST_OF_USER - of_users[key[0]]
            rest += self._bounded(own, before[key], max(0.0, min(of_run, of_user)))
        if rest:
            execute(rest)
        for key, sizes in before.items():
            after = self._stored(to, key, by_run[key])
            growth = sum(after.values()) - sum(sizes.values())
            if growth:
                insert = database.insert(run_sizes)
                row = {"user": key[0], "run": key[1], "bytes": growth}
                changed = {"bytes": run_sizes.c.bytes + insert.excluded.bytes}
                index = ["user", "run"]
                to.execute(insert.on_conflict_do_update(index_elements=index, set_=changed), row)

    def _bounded(self, rows: list[Row], before: Mapping[int, int], left: float) -> list[Row]:
        """Return the rows within what is ``left``, and what is written instead of others."""
        rest = []
        for row in rows:
            growth = _charged(self._weight(row)) - before.get(row["number"], 0)
            if growth > 0 and growth > left:
                reduced = self._reduced(row)
                if reduced is not None:
                    rest.append(reduced)
                continue
            left -= growth
            rest.append(row)
        return rest

    def _weight(self, row: Row) -> int:
        return sum(
            len(json.dumps(row[column.name]) if isinstance(column.type, Json) else row[column.name])
            for column in self._columns
        )

    def _stored(self, to: Connection, key: RunKey, rows: Sequence[Row]) -> dict[int, int]:
        """Return the bytes of these rows in the database that are charged, by number."""
        columns, sizes = self._table.c, dict[int, int]()
        length: ColumnElement[int] = sum(
            (
                func.length(cast(column, Text) if isinstance(column.type, Json) else column)
                for column in self._columns
            ),
            start=literal(0),
        )
        numbers = [row["number"] for row in rows]
        for first in range(0, len(numbers), _TOGETHER):
            query = select(columns.number, length).where(
                columns.user == key[0],
                columns.run == key[1],
                columns.number.in_(numbers[first : first + _TOGETHER]),
            )
            for number, size in to.execute(query):
                sizes[number] = _charged(size)
        return sizes


def _charged(size: int) -> int:
    return size if size > _SMALL else 0


def _known(to: Connection, users: set[str]) -> dict[RunKey, int]:
    """Return the bytes of the users' runs; those without large rows are left out."""
    columns, sizes, names = run_sizes.c, dict[RunKey, int](), sorted(users)
    for first in range(0, len(names), _TOGETHER):
        query = select(columns.user, columns.run, columns.bytes).where(
            columns.user.in_(names[first : first + _TOGETHER])
        )
        sizes |= {(row.user, row.run): row.bytes for row in to.execute(query)}
    return sizes
