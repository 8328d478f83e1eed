"""Figures of endpoints over time: what each stretch of time added. Written by the service only."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import and_, delete, func, or_, select

from portal.gateway.latencies import BOUNDS
from portal.models import Frozen
from portal.store.engine.columns import COUNT, NAME, TIME, Json, filled, keyed, keys
from portal.store.engine.rows import ModelTable

from .models import Endpoint

KEPT = 7 * 86_400.0  # seconds
MOST = 20_000  # rows that are read at once; a week has 10,080 minutes
_MINUTE = 60.0

endpoint_figures = keyed(
    "endpoint_figures",
    *keys(NAME, "endpoint"),
    *keys(TIME, "at"),
    *filled(TIME, "seconds"),
    *filled(COUNT, "requests", "errors", "tokens", "in_flight", "waiting"),
    *filled(COUNT, "ready", "replicas", "gpus"),
    *filled(Json, "latencies"),
)


class EndpointFigures(Frozen):
    """Figures of the ``seconds`` that end ``at`` (Unix seconds). ``latencies``: answers by the
    bounds of the gateway's histogram, the last beyond all; ``replicas``: jobs that run, of which
    ``ready`` ones take requests; ``gpus``: of all of them; ``in_flight``, ``waiting``: at the end.
    """

    endpoint: str
    at: float
    seconds: float
    requests: int = 0
    errors: int = 0
    tokens: int = 0
    in_flight: int = 0
    waiting: int = 0
    ready: int = 0
    replicas: int = 0
    gpus: int = 0
    latencies: tuple[int, ...] = ()


class FigurePoint(Frozen):
    """Figures of a stretch of time that begins ``at`` (Unix seconds). ``requests``, ``errors`` and
    ``tokens`` are per second, ``p50`` and ``p95`` seconds, null without an answer; ``ready``,
    ``replicas`` and ``gpus`` are means, ``waiting`` is the highest number."""

    at: float
    requests: float
    errors: float
    tokens: float
    p50: float | None
    p95: float | None
    waiting: int
    ready: float
    replicas: float
    gpus: float


class Totals(NamedTuple):
    """Requests of an endpoint, and GPU-hours of its replicas' jobs."""

    requests: int = 0
    gpu_hours: float = 0.0


class EndpointFigureTable(ModelTable[EndpointFigures]):
    """The table of figures. Every method raises StoreUnavailable."""

    table, model = endpoint_figures, EndpointFigures

    async def add_figures(self, rows: Sequence[EndpointFigures]) -> None:
        """Insert rows, each of another endpoint."""
        if rows:
            await self._write(endpoint_figures.insert(), [row.model_dump() for row in rows])

    async def since(self, name: str, at: float) -> list[EndpointFigures]:
        """Return the rows of an endpoint after ``at`` (Unix seconds), oldest first."""
        columns = endpoint_figures.c
        query = select(endpoint_figures).where(columns.endpoint == name, columns.at > at)
        return await self._models(query.order_by(columns.at).limit(MOST))

    async def totals(self, endpoints: Sequence[Endpoint], since: float) -> dict[str, Totals]:
        """Return what each of these has had after ``since`` (Unix seconds), by name; without those
        that had nothing. An earlier endpoint of the same name does not count."""
        columns = endpoint_figures.c
        own = [
            and_(columns.endpoint == each.name, columns.at > max(since, each.created_at))
            for each in endpoints
        ]
        if not own:
            return {}
        sums = func.sum(columns.requests), func.sum(columns.gpus * columns.seconds) / 3600
        query = select(columns.endpoint, *sums).where(or_(*own)).group_by(columns.endpoint)
        rows = await self._database.run(lambda to: to.execute(query).all())
        return {name: Totals(int(requests), float(hours)) for name, requests, hours in rows}

    async def prune(self, before: float) -> int:
        """Delete what is older than ``before`` (Unix seconds); return how many rows."""
        return await self._write(delete(endpoint_figures).where(endpoint_figures.c.at < before))


def points_of(rows: Sequence[EndpointFigures], begin: float, end: float, most: int) -> tuple[
    float, list[FigurePoint]
]:  # fmt: skip
    """Return the width of a stretch of time in seconds, whole minutes, and those of at most
    ``most`` between ``begin`` and ``end`` that have rows."""
    width = max(_MINUTE, math.ceil((end - begin) / most / _MINUTE) * _MINUTE)
    buckets: dict[int, list[EndpointFigures]] = defaultdict(list)
    for row in rows:
        buckets[math.floor((row.at - row.seconds / 2) / width)].append(row)
    return width, [_point(place * width, found) for place, found in sorted(buckets.items())]


def _point(at: float, rows: Sequence[EndpointFigures]) -> FigurePoint:
    seconds = sum(row.seconds for row in rows) or 1.0
    latencies = [sum(counts) for counts in zip(*(row.latencies for row in rows), strict=False)]

    def mean(field: str) -> float:
        return sum(getattr(row, field) * row.seconds for row in rows) / seconds

    return FigurePoint(
        at=at,
        requests=sum(row.requests for row in rows) / seconds,
        errors=sum(row.errors for row in rows) / seconds,
        tokens=sum(row.tokens for row in rows) / seconds,
        p50=quantile(latencies, 0.5),
        p95=quantile(latencies, 0.95),
        waiting=max(row.waiting for row in rows),
        ready=mean("ready"),
        replicas=mean("replicas"),
        gpus=mean("gpus"),
    )


def gpu_hours(rows: Sequence[EndpointFigures]) -> float:
    """Return the GPU-hours of all replicas' jobs."""
    return sum(row.gpus * row.seconds for row in rows) / 3600


def quantile(counts: Sequence[int], part: float) -> float | None:
    """Return the seconds that ``part`` of the answers did not exceed, by linear interpolation
    within a bucket, as Prometheus's histogram_quantile does; None without an answer."""
    rank = part * sum(counts)
    if not rank:
        return None
    below, lower = 0, 0.0
    for bound, count in zip(BOUNDS, counts, strict=False):
        if below + count >= rank:
            return lower + (bound - lower) * (rank - below) / count
        below, lower = below + count, bound
    return BOUNDS[-1]


def counts_of(latency: Any) -> tuple[int, ...]:
    """Return the number of answers by bound, of a histogram as the gateway's state has it; none
    for what is no histogram."""
    buckets = latency.get("buckets") if isinstance(latency, Mapping) else None
    if not isinstance(buckets, Mapping):
        return (0,) * (len(BOUNDS) + 1)
    totals = [0, *(int(buckets.get(bound) or 0) for bound in (*map(str, BOUNDS), "+Inf"))]
    return tuple(max(0, after - before) for before, after in pairwise(totals))
