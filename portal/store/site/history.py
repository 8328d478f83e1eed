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
from ..engine.database import Database
from ..engine.listing import instant

_COUNTS = tuple(name for name in ClusterSample.model_fields if name not in ("at", "gpus_busy"))
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_WIDTHS = (60, 120, 300, 600, 900, 1800, _HOUR, 7200, 10800, 21600, 43200)  # then whole days

history = keyed(
    "history",
    *keys(COUNT, "seconds", autoincrement=False),  # 60 or 3600
    *keys(COUNT, "at", autoincrement=False),  # its begin, Unix seconds
    *filled(COUNT, "samples", *_COUNTS, "gpus_busy"),
    *filled(COUNT, "gpus_busy_samples"),  # samples that knew it
)


class HistoryTable:
    """The table of samples. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, sample: ClusterSample) -> None:
        """Add one sample; several of one minute become its mean."""
        at = int(instant(sample.at, "at"))
        values: dict[str, Any] = {name: getattr(sample, name) for name in _COUNTS}
        values["samples"] = 1
        values["gpus_busy"] = sample.gpus_busy or 0
        values["gpus_busy_samples"] = int(sample.gpus_busy is not None)
        insert = self._database.insert(history).values(
            [values | {"seconds": width, "at": at // width * width} for width in (_MINUTE, _HOUR)]
        )
        sums = {name: history.c[name] + insert.excluded[name] for name in values}
        statement = insert.on_conflict_do_update(index_elements=["seconds", "at"], set_=sums)
        await self._database.run(lambda to: to.execute(statement), write=True)

    async def points(self, start: float, end: float, points: int) -> list[HistoryPoint]:
        """Return means over equal stretches of time from ``start`` to ``end``, at most ``points``
        (2 to 5000), of whole minutes, hours or days in UTC. A stretch without samples has None."""
        width = _width(instant(start, "start"), instant(end, "end"), min(max(points, 2), 5000))
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
        return await self._database.run(lambda to: to.execute(statement).rowcount, write=True)


def _width(start: float, end: float, points: int) -> int:
    """Return the shortest width in seconds with which ``points`` are enough."""

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
