"""Curves of points: the histories of their metrics, compressed. Written by the service only."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import LargeBinary, bindparam, select

from portal.models.session.run import Curves
from portal.store.engine.columns import COUNT, NAME, filled, keyed, keys
from portal.store.engine.rows import StoreTable

from .runs import RunKey
from .sizes import Sizes

run_curves = keyed(
    "run_curves",
    *keys(NAME, "user", "run"),
    *keys(COUNT, "number", autoincrement=False),
    *filled(COUNT, "attempt"),
    *filled(LargeBinary, "curves"),
)

_SIZES = Sizes(run_curves, "curves", share=0.75)  # the points' own values have room in any case


class RunCurveTable(StoreTable):
    """The table of curves, by run and point. Every method raises StoreUnavailable."""

    async def save(self, curves: Sequence[tuple[RunKey, int, int, Curves]]) -> None:
        """Insert the curves of points, each with its number and attempt, or replace those before,
        unless they are of a later attempt; all or none. Each point may be there once. If a run or a
        user has stored too much, further curves are left out."""
        if not curves:
            return
        insert = self._database.insert(run_curves)
        new, old = insert.excluded, run_curves.c
        statement = insert.on_conflict_do_update(
            index_elements=["user", "run", "number"],
            set_={"attempt": new.attempt, "curves": new.curves},
            where=new.attempt >= old.attempt,
        )

        def write(to: Any) -> None:
            rows = [
                {"user": key[0], "run": key[1], "number": number, "attempt": attempt,
                 "curves": _packed(histories)}
                for key, number, attempt, histories in curves
            ]  # fmt: skip
            _SIZES.write(to, self._database, rows, lambda rest: to.execute(statement, rest))

        await self._database.run(write, write=True)

    async def numbers(self, user: str, run: str) -> set[int]:
        """Return the numbers of the points that have curves."""
        columns = run_curves.c
        query = select(columns.number).where(columns.user == user, columns.run == run)
        return {row.number for row in await self._rows_of(query)}

    async def of_metric(
        self, user: str, run: str, metric: str, numbers: Collection[int]
    ) -> dict[int, list[tuple[float, float]]]:
        """Return a metric's curve of these points, by number; points without it are left out."""
        columns = run_curves.c
        query = select(columns.number, columns.curves).where(
            columns.user == user, columns.run == run, columns.number.in_(list(numbers))
        )

        def read(at: Any) -> dict[int, list[tuple[float, float]]]:
            curves = {row.number: _unpacked(row.curves).get(metric) for row in at.execute(query)}
            return {number: pairs for number, pairs in curves.items() if pairs}

        return await self._database.run(read) if numbers else {}

    async def of_points(
        self, user: str, points: Mapping[str, tuple[int, str]]
    ) -> dict[str, list[tuple[float, float]]]:
        """Return the curve of one point of each run, by run; those without it are left out.
        ``points``: by run, the number and the metric."""
        columns = run_curves.c
        query = select(columns.curves).where(
            columns.user == user,
            columns.run == bindparam("of_run"),
            columns.number == bindparam("at"),
        )

        def read(at: Any) -> dict[str, list[tuple[float, float]]]:
            found = {}
            for run, (number, metric) in points.items():
                content = at.execute(query, {"of_run": run, "at": number}).scalar()
                if content is not None and (pairs := _unpacked(content).get(metric)):
                    found[run] = pairs
            return found

        return await self._database.run(read)


def _packed(curves: Curves) -> bytes:
    return zlib.compress(json.dumps(curves, separators=(",", ":")).encode(), 3)


def _unpacked(content: bytes) -> dict[str, list[tuple[float, float]]]:
    curves = json.loads(zlib.decompress(content))
    return {name: [(x, y) for x, y in pairs] for name, pairs in curves.items()}
