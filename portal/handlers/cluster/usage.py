"""``api/v1/usage``: GPU-hours that were held, used and idle, by week or month."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Literal, get_args

from pydantic import Field

from portal.errors import InvalidRequest
from portal.models.scope import USAGE_READ
from portal.models.session.usage import UsageKey, UsageRow

from ..base.csv import MEDIA, CsvEndpoint
from ..base.endpoint import Endpoint, Operation, Query
from ..base.listing import Text, found, ordered
from ..base.paging import Page, PageQuery, page_of

_PERIODS = 12  # shown if no start is given
_LENGTH = {"week": 7 * 86_400, "month": 31 * 86_400}  # seconds
_LONGEST = 10 * 366 * 86_400
_KEYS = get_args(UsageKey)

_Time = Annotated[float | None, Field(ge=0, le=32503680000, allow_inf_nan=False)]


class MyUsageFilter(Query):
    """Filters and order of usage. Days, weeks (ISO 8601) and months are in UTC."""

    period: Literal["week", "month"] = "week"
    start: Annotated[
        _Time,
        Field(description="Unix seconds; the whole day is included. Default: twelve periods ago."),
    ] = None
    end: Annotated[
        _Time, Field(description="Unix seconds; the whole day is included. Default: now.")
    ] = None
    text: Text = None
    sort: Literal[
        "period", "-period", "key", "-key", "jobs", "-jobs", "held_hours", "-held_hours",
        "used_hours", "-used_hours", "idle_hours", "-idle_hours",
        "measured_share", "-measured_share",
    ] = "-period"  # fmt: skip

    def span(self, now: float) -> tuple[float, float]:
        """Return start and end. Raises InvalidRequest for a span that makes no sense."""
        end = now if self.end is None else self.end
        start = end - _PERIODS * _LENGTH[self.period] if self.start is None else self.start
        start = max(0.0, start)
        if start > end:
            raise InvalidRequest("'start' is after 'end'.", "start")
        if end - start > _LONGEST:
            raise InvalidRequest(
                "The time range is longer than ten years. Choose a shorter one.", "start"
            )
        return start, end

    def choose(self, rows: Sequence[UsageRow]) -> list[UsageRow]:
        """Return the rows that pass the filter, in its order; within a period the most first."""
        chosen = [row for row in rows if not self.text or found(self.text)(row.key)]
        chosen.sort(key=lambda row: (-row.held_hours, row.key))
        return ordered(chosen, self.sort)


class UsageFilter(MyUsageFilter):
    """Filters, order and grouping of usage."""

    by: UsageKey = "user"


class UsageQuery(PageQuery, UsageFilter):
    """Filters, order, grouping and page of usage."""


class MyUsageQuery(PageQuery, MyUsageFilter):
    """Filters, order and page of one's own usage."""


class UsagePage(Page[UsageRow]):
    """Page of GPU-hours. ``simulated``: telemetry is invented, and so is what was used.

    What was used is known of the measured part only. A key may be "": a job that has none.
    """

    start: float
    end: float
    simulated: bool


class _Base(Endpoint):
    def made(self, rows: Sequence[UsageRow], start: float, end: float) -> UsagePage:
        query = self.query
        paged = page_of(query.choose(rows), query)
        simulated = self.parts.telemetry.simulated
        return UsagePage(**dict(paged), start=start, end=end, simulated=simulated)

    async def everyones(self, start: float, end: float) -> list[UsageRow]:
        query = self.query
        return await self.parts.store.usage.totals(
            by=query.by, period=query.period, start=start, end=end
        )

    async def mine(self, start: float, end: float) -> list[UsageRow]:
        return await self.parts.store.usage.mine(self.person.name, self.query.period, start, end)


class Usage(_Base):
    """Usage of everyone."""

    path = "usage"

    @Operation(
        f"GPU-hours by {', '.join(_KEYS[:-1])} or {_KEYS[-1]}.",
        query=UsageQuery,
        scope=USAGE_READ,
    )
    async def on_get(self) -> UsagePage:
        """Count a job for each group of its session's owner; other jobs are under "" there."""
        start, end = self.query.span(time.time())
        return self.made(await self.everyones(start, end), start, end)


class MyUsage(_Base):
    """Usage of one's own."""

    path = "usage/mine"

    @Operation("Your own GPU-hours by environment.", query=MyUsageQuery)
    async def on_get(self) -> UsagePage:
        """Return rows with the environment as key; "" are your jobs outside the portal."""
        start, end = self.query.span(time.time())
        return self.made(await self.mine(start, end), start, end)


class UsageCsv(_Base, CsvEndpoint):
    """Usage of everyone, as a file."""

    path = "usage.csv"
    columns = tuple(UsageRow.model_fields)

    @Operation("GPU-hours as CSV.", query=UsageFilter, scope=USAGE_READ, media=MEDIA)
    async def rows(self) -> Sequence[UsageRow]:
        return self.query.choose(await self.everyones(*self.query.span(time.time())))


class MyUsageCsv(_Base, CsvEndpoint):
    """Usage of one's own, as a file."""

    path = "usage/mine.csv"
    columns = tuple(UsageRow.model_fields)

    @Operation("Your own GPU-hours as CSV.", query=MyUsageFilter, media=MEDIA)
    async def rows(self) -> Sequence[UsageRow]:
        return self.query.choose(await self.mine(*self.query.span(time.time())))


ENDPOINTS = (Usage, UsageCsv, MyUsage, MyUsageCsv)
