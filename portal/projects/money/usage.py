"""GPU-hours of a project by member and by day or week of UTC."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from datetime import time as clock
from typing import Annotated, Literal

from pydantic import Field

from portal.errors import InvalidRequest
from portal.handlers.base.csv import MOST
from portal.handlers.base.endpoint import Query
from portal.models import Frozen
from portal.models.session.usage import UsageRow
from portal.store import Store

_SHOWN = 5  # members with a line of their own
_DAYS = {"day": 1, "week": 7}


class ProjectUsageQuery(Query):
    """Days or weeks (ISO 8601) of UTC, the present one included."""

    period: Literal["day", "week"] = "day"
    last: Annotated[int, Field(ge=1, le=92, description="Number of periods.")] = 30


class MemberUse(Frozen):
    """GPU-hours of a member, present or former: ``hours`` together, ``values`` in each period."""

    person: str
    hours: float
    values: tuple[float, ...]


class ProjectUsage(Frozen):
    """GPU-hours of a project. ``periods`` and their beginnings (Unix seconds), the oldest first;
    ``members``: the five who used most, and their sums; ``others``: number of the others, and
    ``of_others`` theirs together."""

    periods: tuple[str, ...]
    times: tuple[float, ...]
    members: tuple[MemberUse, ...]
    others: int
    of_others: MemberUse
    hours: float


def beginnings(query: ProjectUsageQuery, now: float) -> list[datetime]:
    """Return when the periods begin, the oldest first."""
    day = datetime.combine(datetime.fromtimestamp(now, UTC).date(), clock.min, UTC)
    step = timedelta(days=_DAYS[query.period])
    if query.period == "week":
        day -= timedelta(days=day.weekday())
    return [day - step * back for back in reversed(range(query.last))]


async def rows_of(store: Store, name: str, query: ProjectUsageQuery, now: float) -> list[UsageRow]:
    """Return a row for each member and period in which they used GPUs, by period. Raises
    InvalidRequest for more than a file has, StoreUnavailable."""
    start = beginnings(query, now)[0].timestamp()
    rows = await store.usage.of_members(name, query.period, start, now, MOST + 1)
    if len(rows) > MOST:
        raise InvalidRequest(
            f"The usage has more than {MOST:,} rows. Choose weeks, or fewer periods.", "last"
        )
    return rows


def usage_by_member(rows: Sequence[UsageRow], query: ProjectUsageQuery, now: float) -> ProjectUsage:
    """Return the usage as it is plotted."""
    begin = beginnings(query, now)
    names = [_name(start, query.period) for start in begin]
    place = {name: at for at, name in enumerate(names)}
    values: dict[str, list[float]] = {}
    for row in rows:
        own = values.setdefault(row.key, [0.0] * len(names))
        if row.period in place:
            own[place[row.period]] += row.held_hours
    order = sorted(values, key=lambda person: (-sum(values[person]), person))
    rest = order[_SHOWN:]
    of_others = [sum(values[person][at] for person in rest) for at in range(len(names))]
    return ProjectUsage(
        periods=tuple(names),
        times=tuple(start.timestamp() for start in begin),
        members=tuple(_use(person, values[person]) for person in order[:_SHOWN]),
        others=len(rest),
        of_others=_use("", of_others),
        hours=sum(map(sum, values.values())),
    )


def _use(person: str, values: Sequence[float]) -> MemberUse:
    return MemberUse(person=person, hours=sum(values), values=tuple(values))


def _name(start: datetime, period: str) -> str:
    """Return the name of a period as the store writes it: "2026-11-21", "2026-W47"."""
    if period == "day":
        return start.date().isoformat()
    year, week, _ = start.isocalendar()
    return f"{year}-W{week:02}"
