"""``api/v1/history``: the cluster over time, in the requested number of points."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, model_validator

from portal.models import Frozen
from portal.models.cluster.history import ClusterSeries, HistoryPoint, NodeHours

from ..base.csv import MEDIA, CsvEndpoint
from ..base.endpoint import Endpoint, Operation, Query
from ..base.paging import Page

_DAY = 86400
_LONGEST = 3 * 366 * _DAY
_Time = Annotated[float, Field(ge=0, le=32503680000, allow_inf_nan=False)]  # up to the year 3000


class HistoryQuery(Query):
    """Span from ``start`` to ``end`` (Unix seconds), at most three years, in ``points``.

    The last day if neither is given.
    """

    start: _Time | None = None
    end: _Time | None = None
    points: Annotated[int, Field(ge=1, le=1000)] = 300

    @model_validator(mode="after")
    def _in_order(self) -> HistoryQuery:
        start, end = self.times
        if end <= start:
            raise ValueError("'end' must be after 'start'")
        if end - start > _LONGEST:
            raise ValueError("'start' and 'end' must be at most three years apart")
        return self

    @property
    def times(self) -> tuple[float, float]:
        """Start and end."""
        end = self.end if self.end is not None else self._last_end()
        return (self.start if self.start is not None else max(0.0, end - _DAY)), end

    def _last_end(self) -> float:
        return time.time() if self.start is None else max(time.time(), self.start + 1)


class HistoryEndpoint(Endpoint):
    """GPUs, queue and sessions over time."""

    path = "history"

    @Operation("History of the cluster: averages over equal intervals.", query=HistoryQuery)
    async def on_get(self) -> Page[HistoryPoint]:
        """Return all points on one page; a part without a sample has nulls."""
        points = await points_of(self)
        return Page(items=tuple(points), next=None, total=len(points))


class HistoryCsv(CsvEndpoint):
    """GPUs, queue and sessions over time, as a file."""

    path = "history.csv"
    columns = tuple(HistoryPoint.model_fields)
    times = frozenset({"at"})

    @Operation("History of the cluster as CSV.", query=HistoryQuery, media=MEDIA)
    async def rows(self) -> Sequence[HistoryPoint]:
        return await points_of(self)


class SeriesAnswer(Frozen):
    """Quantities by name over equal stretches of ``seconds``, which begin at ``at``."""

    at: tuple[int, ...]
    seconds: int
    series: tuple[ClusterSeries, ...]


class SeriesEndpoint(Endpoint):
    """Queue, waiting times and power over time."""

    path = "history/series"

    @Operation("Queue by partition and reason, waits and power by GPU type.", query=HistoryQuery)
    async def on_get(self) -> SeriesAnswer:
        """Return means: waiting jobs, seconds between submission and start, watts.

        The name of a queue is "PARTITION/REASON", as 'jobs' filters them; "" are the others. A
        stretch is at least an hour if it begins more than three days ago.
        """
        start, end = self.query.times
        begins, series = await self.parts.store.series.means(
            start, end, self.query.points, time.time()
        )
        return SeriesAnswer(at=tuple(begins), seconds=begins.step, series=tuple(series))


class NodesAnswer(Frozen):
    """Means of each hour that begins at ``at``, by node."""

    at: tuple[int, ...]
    nodes: dict[str, NodeHours]


class NodeHistoryEndpoint(Endpoint):
    """Nodes over the last day."""

    path = "history/nodes"

    @Operation("Held and used share of each node in the last 24 hours.")
    async def on_get(self) -> NodesAnswer:
        begins, nodes = await self.parts.store.series.nodes(time.time())
        return NodesAnswer(at=tuple(begins), nodes=nodes)


ENDPOINTS = (HistoryEndpoint, HistoryCsv, SeriesEndpoint, NodeHistoryEndpoint)


async def points_of(handler: Endpoint) -> list[HistoryPoint]:
    """Return the points that the store has for the handler's query."""
    start, end = handler.query.times
    return await handler.parts.store.history.points(start, end, handler.query.points)
