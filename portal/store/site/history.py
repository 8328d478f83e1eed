"""The cluster over time. Written by the service only.

Each sample is added to the sums of its minute and of its hour, so that a year is read from 8,760
rows and not from half a million.
"""

from __future__ import annotations

import math
from typing import Any

from sqlalchemy import Connection, delete, func, select

from portal.models.cluster.history import ClusterSample, HistoryPoint

from ..engine.columns import COUNT, filled, keyed, keys
from ..engine.listing import instant
from ..engine.rows import StoreTable

_OTHER = ("at", "gpus_busy", "series")
_COUNTS = tuple(name for name in ClusterSample.model_fields if name not in _OTHER)
_SUMS = (*_COUNTS, "samples", "gpus_busy", "gpus_busy_samples")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_WIDTHS = (60, 120, 300, 600, 900, 1800, _HOUR, 7200, 10800, 21600, 43200)  # then whole days

history = keyed(
    "history",
    *keys(COUNT, "seconds", autoincrement=False),  # 60 or 3600
    *keys(COUNT, "at", autoincrement=False),  # its begin, Unix seconds
    *filled(COUNT, "samples", *_COUNTS, "gpus_busy"),
    *filled(COUNT, "gpus_busy_samples"),  # samples that knew it
)


class HistoryTable(StoreTable):
    """The table of samples. Every method raises StoreUnavailable."""

    async def add_samples(self, *samples: ClusterSample) -> None:
        """Add samples; several of one minute become its mean."""
        rows = [row for sample in samples for row in _rows(sample)]
        if not rows:
            return
        insert = self._database.insert(history)
        sums = {name: history.c[name] + insert.excluded[name] for name in _SUMS}
        statement = insert.on_conflict_do_update(index_elements=["seconds", "at"], set_=sums)
        await self._write(statement, rows)

    async def points(self, start: float, end: float, points: int) -> list[HistoryPoint]:
        """Return means over equal stretches of time from ``start`` to ``end``, at most ``points``
        (2 to 5000), of whole minutes, hours or days in UTC. A stretch without samples has None."""
        width = width_of(start, end, points)
        first, last = math.floor(start / width), math.ceil(end / width)
        if last <= first:
            return []
        rows = _HOUR if width % _HOUR == 0 else _MINUTE
        # Not a division: the databases differ in that.
        bucket = (history.c.at - history.c.at % width).label("bucket")
        names = (*_COUNTS, "gpus_busy", "samples", "gpus_busy_samples")
        query = (
            select(bucket, *(func.sum(history.c[name]) for name in names))
            .where(history.c.seconds == rows)
            .where(history.c.at >= first * width, history.c.at < last * width)
            .group_by(bucket)
        )

        def ask(to: Connection) -> list[HistoryPoint]:
            sums = {row[0]: row[1:] for row in to.execute(query)}
            begins = range(first * width, last * width, width)
            return [_point(at, width, sums.get(at)) for at in begins]

        return await self._database.run(ask)

    async def prune(self, before: float) -> int:
        """Delete what is older than ``before``; return how many rows."""
        statement = delete(history).where(history.c.at < int(instant(before, "before")))
        return await self._write(statement)


def _rows(sample: ClusterSample) -> list[dict[str, Any]]:
    """Return the rows that a sample is added to: its minute's, its hour's."""
    at = int(instant(sample.at, "at"))
    values: dict[str, Any] = {name: getattr(sample, name) for name in _COUNTS}
    values["samples"] = 1
    values["gpus_busy"] = sample.gpus_busy or 0
    values["gpus_busy_samples"] = int(sample.gpus_busy is not None)
    return [values | {"seconds": width, "at": at // width * width} for width in (_MINUTE, _HOUR)]


def width_of(start: float, end: float, points: int) -> int:
    """Return the shortest width in seconds with which ``points`` (2 to 5000) are enough."""
    start, end, points = instant(start, "start"), instant(end, "end"), min(max(points, 2), 5000)

    def enough(width: int) -> bool:
        return math.ceil(end / width) - math.floor(start / width) <= points

    for width in _WIDTHS:
        if enough(width):
            return width
    days = max(1, math.ceil((end - start) / points / _DAY))
    while not enough(days * _DAY):
        days += 1
    return days * _DAY


def _point(at: int, width: int, sums: Any) -> HistoryPoint:
    if sums is None:
        return HistoryPoint(at=at, seconds=width)
    *counts, busy, samples, knew = sums
    means = {name: float(count / samples) for name, count in zip(_COUNTS, counts, strict=True)}
    return HistoryPoint(
        at=at, seconds=width, **means, gpus_busy=float(busy / knew) if knew else None
    )
