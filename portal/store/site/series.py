"""Quantities of the cluster over time, by name. Written by the service only.

Each sample is added to the sums of its minute, which are kept for some days, and of its hour;
those of nodes only to that of the hour, for as long as pages show it.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, delete, func, or_, select

from portal.models.cluster.history import ClusterSample, ClusterSeries, NodeHours, SeriesKind

from ..engine.columns import COUNT, NAME, TIME, filled, keyed, keys
from ..engine.listing import instant
from ..engine.rows import StoreTable
from .history import history, width_of

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_MINUTES_FOR = 3 * _DAY
_NODES_FOR = 2 * _DAY
_OF_NODES = (SeriesKind.HELD, SeriesKind.USED)

series = keyed(
    "history_series",
    *keys(COUNT, "seconds", autoincrement=False),  # 60 or 3600
    *keys(COUNT, "at", autoincrement=False),  # its begin, Unix seconds
    *keys(NAME, "kind", "name"),
    *filled(TIME, "total"),
    *filled(COUNT, "count"),
)


class SeriesTable(StoreTable):
    """The table of quantities by name. Every method raises StoreUnavailable."""

    async def add_samples(self, *samples: ClusterSample) -> None:
        """Add what the samples have by name."""
        # In a thread: some thousand nodes would block the event loop.
        rows = await asyncio.to_thread(lambda: [row for sample in samples for row in _rows(sample)])
        if not rows:
            return
        insert = self._database.insert(series)
        sums = {name: series.c[name] + insert.excluded[name] for name in ("total", "count")}
        unique = list(series.primary_key)
        statement = insert.on_conflict_do_update(index_elements=unique, set_=sums)
        await self._write(statement, rows)

    async def means(
        self, start: float, end: float, points: int, now: float
    ) -> tuple[range, list[ClusterSeries]]:
        """Return the begins of at most ``points`` equal stretches of time from ``start`` to
        ``end``, and the mean of each quantity in each of them; those of nodes are left out.

        Before ``now`` less some days, a stretch is at least an hour.
        """
        width = width_of(start, end, points)
        if start < now - _MINUTES_FOR:
            width = max(width, _HOUR)
        begins = range(math.floor(start / width) * width, math.ceil(end / width) * width, width)
        rows = _HOUR if width % _HOUR == 0 else _MINUTE

        def within(table: Table, *values: ColumnElement[Any]) -> Select[Any]:
            # Not a division: the databases differ in that.
            bucket = (table.c.at - table.c.at % width).label("bucket")
            inside = table.c.at >= begins.start, table.c.at < begins.stop
            query = select(bucket, *values).where(table.c.seconds == rows, *inside)
            return query.group_by(bucket)

        by = series.c.kind, series.c.name
        sums = func.sum(series.c.total), func.sum(series.c["count"])
        quantities = within(series, *by, *sums).where(series.c.kind.not_in(_OF_NODES)).group_by(*by)
        looks = within(history, func.sum(history.c.samples))

        def ask(to: Connection) -> list[ClusterSeries]:
            samples = {at: number for at, number in to.execute(looks)}
            means: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
            for at, kind, name, total, count in to.execute(quantities):
                if kind != SeriesKind.QUEUE:
                    means[kind, name][at] = total / float(count)
                elif at in samples:
                    means[kind, name][at] = total / float(samples[at])
            # Without a row, nothing waited: the other quantities are not known then.
            empty = {SeriesKind.QUEUE: dict.fromkeys(samples, 0.0)}
            return [
                ClusterSeries(
                    kind=SeriesKind(kind),
                    name=name,
                    values=tuple(map({**empty.get(SeriesKind(kind), {}), **known}.get, begins)),
                )
                for (kind, name), known in sorted(means.items())
            ]

        return begins, await self._database.run(ask)

    async def nodes(self, end: float, hours: int = 24) -> tuple[range, dict[str, NodeHours]]:
        """Return the begins of the last ``hours`` up to ``end``, and each node's means in them."""
        stop = math.ceil(instant(end, "end") / _HOUR) * _HOUR
        begins = range(stop - hours * _HOUR, stop, _HOUR)
        query = select(series).where(
            series.c.seconds == _HOUR,
            series.c.at >= begins.start,
            series.c.kind.in_(_OF_NODES),
        )
        rows = await self._rows_of(query)
        known = {(kind, name, at): total / count for _, at, kind, name, total, count in rows}

        def means(kind: SeriesKind, name: str) -> tuple[float | None, ...]:
            return tuple(known.get((kind, name, at)) for at in begins)

        return begins, {
            name: NodeHours(held=means(SeriesKind.HELD, name), used=means(SeriesKind.USED, name))
            for name in {name for _, name, _ in known}
        }

    async def prune(self, before: float, now: float) -> int:
        """Delete what is older than ``before``, minutes that are some days old, and nodes' hours
        that no page shows; return how many rows."""
        old = or_(
            series.c.at < int(instant(before, "before")),
            and_(series.c.seconds == _MINUTE, series.c.at < int(now) - _MINUTES_FOR),
            and_(series.c.kind.in_(_OF_NODES), series.c.at < int(now) - _NODES_FOR),
        )
        return await self._write(delete(series).where(old))


def _rows(sample: ClusterSample) -> Iterator[dict[str, Any]]:
    """Yield the rows that a sample is added to."""
    at = int(instant(sample.at, "at"))
    for quantity in sample.series:
        for width in (_HOUR,) if quantity.kind in _OF_NODES else (_MINUTE, _HOUR):
            yield quantity.model_dump() | {"seconds": width, "at": at // width * width}
