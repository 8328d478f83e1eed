"""GPU time of jobs: what they held, day by day. Written by the service only."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from sqlalchemy import ColumnElement, Select, func, literal, select

from portal.errors import InvalidRequest
from portal.models.session.usage import JobUsage, UsageKey, UsageRow

from ..engine.listing import instant
from ..engine.rows import StoreTable
from .usage_tables import JobKey, days, groups, jobs, space_column, write

Period = Literal["week", "month"]

_SUMS = tuple(func.sum(days.c[name]).label(name) for name in ("held", "used", "measured"))


class UsageTable(StoreTable):
    """The tables of GPU time. Every method raises StoreUnavailable."""

    async def add_seconds(
        self,
        rows: Sequence[JobUsage],
        *,
        until: Mapping[JobKey, float] | None = None,
        closed: Collection[JobKey] = (),
    ) -> None:
        """Add GPU-seconds to those of each job and day. ``until`` and ``closed``, as in ``mark``,
        go into the same transaction: nothing is counted twice or lost between the two."""

        if rows or until or closed:
            await self._database.run(
                lambda to: write(self._database, to, rows, until or {}, closed), write=True
            )

    async def accounted_until(self) -> dict[JobKey, float]:
        """Return until when (Unix seconds) held time was added, by job that is not closed."""
        query = select(jobs.c.job_id, jobs.c.submitted_at, jobs.c.accounted_until).where(
            jobs.c.closed == 0, jobs.c.accounted_until.is_not(None)
        )
        return await self._database.run(
            lambda at: {(row[0], row[1]): row[2] for row in at.execute(query)}
        )

    async def mark(self, until: Mapping[JobKey, float], closed: Collection[JobKey] = ()) -> None:
        """Record until when jobs are accounted, and which are ``closed``: nothing follows."""
        await self.add_seconds((), until=until, closed=closed)

    async def totals(
        self, *, by: UsageKey, period: Period, start: float, end: float
    ) -> list[UsageRow]:
        """Return GPU-hours of each ``by`` and ``period``, for the UTC days from that of ``start``
        to that of ``end``. A job counts for each of its groups; jobs without one are under ""."""
        key = groups.c.name if by == "group" else jobs.c[_one_of(by, _BY)]
        query = self._by_period(func.coalesce(key, ""), period, start, end)
        if by == "group":
            query = query.outerjoin(groups, groups.c.job == jobs.c.id)
        return await self._rows(query)

    async def mine(self, user: str, period: Period, start: float, end: float) -> list[UsageRow]:
        """Return the GPU-hours of one person, by environment and ``period``."""
        query = self._by_period(jobs.c.environment, period, start, end)
        return await self._rows(query.where(jobs.c.user == user))

    async def of_sessions(self, ids: Collection[str]) -> dict[str, JobUsage]:
        """Return the sums of all days (``day`` is "") by session id. Several jobs of a session are
        one here, under the id of the newest."""
        query = (
            select(jobs, *_SUMS)
            .outerjoin(days, days.c.job == jobs.c.id)
            .where(jobs.c.session_id.in_([id_ for id_ in ids if id_]))
            .group_by(jobs.c.id)
            .order_by(jobs.c.submitted_at, jobs.c.id)
        )
        rows = await self._rows_of(query) if ids else []
        by_session: dict[str, JobUsage] = {}
        for row in rows:
            before = by_session.get(row.session_id)
            values = {name: getattr(row, name) for name in JobUsage.model_fields if name != "day"}
            for name in ("held", "used", "measured"):
                values[name] = (values[name] or 0) + (getattr(before, name) if before else 0)
            by_session[row.session_id] = JobUsage.model_validate(values | {"day": ""})
        return by_session

    async def of_space(self, space: str, since: float = 0.0) -> float:
        """Return the GPU-hours that all sessions of a space have held, from the UTC day of
        ``since`` on (Unix seconds)."""
        query = (
            select(func.sum(days.c.held))
            .select_from(days)
            .join(jobs, jobs.c.id == days.c.job)
            .where(space_column == space)
        )
        if since:
            query = query.where(days.c.day >= _day(since, "since"))
        return await self._database.run(lambda at: float(at.execute(query).scalar() or 0)) / 3600

    async def by_person(self, space: str) -> list[UsageRow]:
        """Return a space's GPU-hours by person, over all of its time; ``period`` is ""."""
        query = (
            select(
                jobs.c.user.label("key"),
                literal("").label("period"),
                func.count(jobs.c.id.distinct()).label("jobs"),
                *_SUMS,
            )
            .select_from(days)
            .join(jobs, jobs.c.id == days.c.job)
            .where(space_column == space)
            .group_by(jobs.c.user)
            .order_by(jobs.c.user)
        )
        return await self._rows(query)

    def _by_period(
        self, key: ColumnElement[str], period: Period, start: float, end: float
    ) -> Select[Any]:
        column = days.c.week if _one_of(period, ("week", "month")) == "week" else _MONTH
        return (
            select(
                key.label("key"),
                column.label("period"),
                func.count(days.c.job.distinct()).label("jobs"),
                *_SUMS,
            )
            .select_from(days)
            .join(jobs, jobs.c.id == days.c.job)
            .where(days.c.day >= _day(start, "start"), days.c.day <= _day(end, "end"))
            .group_by("key", "period")
            .order_by("period", "key")
        )

    async def _rows(self, query: Select[Any]) -> list[UsageRow]:
        return await self._database.run(lambda at: [_row(row) for row in at.execute(query)])


_BY = [key for key in get_args(UsageKey) if key != "group"]
_MONTH = func.substr(days.c.day, 1, 7)


def _row(row: Any) -> UsageRow:
    known = row.measured > 0
    return UsageRow(
        key=row.key,
        period=row.period,
        jobs=row.jobs,
        held_hours=row.held / 3600,
        used_hours=row.used / 3600 if known else None,
        idle_hours=max(row.measured - row.used, 0) / 3600 if known else None,
        measured_share=min(row.measured / row.held, 1) if row.held > 0 else 0,
    )


def _one_of(word: str, words: Iterable[str]) -> str:
    if word not in words:
        raise InvalidRequest(f"Usage is not recorded by '{word[:50]}'.")
    return word


def _day(at: float, name: str) -> str:
    return datetime.datetime.fromtimestamp(instant(at, name), datetime.UTC).date().isoformat()
