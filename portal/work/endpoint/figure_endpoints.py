"""``api/v1/models/{name}/figures``: an endpoint over time, for its owner and for admins."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from portal.handlers.base.csv import MEDIA, CsvEndpoint
from portal.handlers.base.endpoint import Operation, Query
from portal.models import Frozen
from portal.models.scope import SESSIONS_READ

from .action import EndpointAction
from .figures import (
    KEPT,
    EndpointFigures,
    EndpointFigureTable,
    FigurePoint,
    gpu_hours,
    points_of,
    quantile,
)

_POINTS = 240


class FiguresQuery(Query):
    """Begin of the time that is asked for."""

    since: Annotated[
        float,
        Field(ge=0, le=2**40, description="Unix seconds; by default a day ago, at most a week."),
    ] = 0.0


class Figures(Frozen):
    """Figures between ``began_at`` and ``ended_at`` (Unix seconds), in stretches of ``seconds``;
    those without a row, in which the endpoint slept or nobody measured, are left out. ``requests``,
    ``errors``, ``tokens`` and ``gpu_hours``: all together."""

    began_at: float
    ended_at: float
    seconds: float
    requests: int
    errors: int
    tokens: int
    gpu_hours: float
    items: tuple[FigurePoint, ...]


class _FiguresBase(EndpointAction):
    async def known(self, name: str) -> tuple[float, float, list[EndpointFigures]]:
        """Return begin and end of what is asked for, and the rows between."""
        endpoint = await self.owned(name, SESSIONS_READ)
        now = time.time()
        # An endpoint of this name that was deleted may have rows, too.
        began = max(self.query.since or now - 86_400, now - KEPT, endpoint.created_at)
        table = self.parts.store.table(EndpointFigureTable)
        return min(began, now), now, await table.since(name, began)


class EndpointFiguresOverTime(_FiguresBase):
    """Figures as the page plots them."""

    path = "models/{name}/figures"

    @Operation("Show requests, times, errors, replicas and GPUs over time.", query=FiguresQuery)
    async def on_get(self, name: str) -> Figures:
        """Return at most some 240 stretches of time."""
        began, now, rows = await self.known(name)
        seconds, items = points_of(rows, began, now, _POINTS)
        return Figures(
            began_at=began,
            ended_at=now,
            seconds=seconds,
            requests=sum(row.requests for row in rows),
            errors=sum(row.errors for row in rows),
            tokens=sum(row.tokens for row in rows),
            gpu_hours=gpu_hours(rows),
            items=tuple(items),
        )


class EndpointFiguresCsv(_FiguresBase, CsvEndpoint):
    """The rows themselves, one for each minute."""

    path = "models/{name}/figures.csv"
    columns = (
        "at", "seconds", "requests", "errors", "tokens", "p50", "p95", "in_flight", "waiting",
        "ready", "replicas", "gpus",
    )  # fmt: skip
    times: ClassVar[frozenset[str]] = frozenset({"at"})

    async def on_get(self, name: str) -> None:  # type: ignore[override]
        """Send the file."""
        self.name = name
        await self.send(f"{name}-figures.csv")

    @Operation("Download the figures of each minute as CSV.", query=FiguresQuery, media=MEDIA)
    async def rows(self) -> Sequence[EndpointFigures]:
        """Return those between begin and end."""
        return (await self.known(self.name))[2]

    def value(self, row: Any, column: str) -> Any:
        """Return the value of a row's cell."""
        if column in ("p50", "p95"):
            return quantile(row.latencies, int(column[1:]) / 100)
        return getattr(row, column)


ENDPOINTS = (EndpointFiguresCsv, EndpointFiguresOverTime)
