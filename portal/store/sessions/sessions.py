"""Records of sessions. Written by the Hub's process only."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import Boolean, Index, delete, false, func, select, text

from portal.models.session.session import SessionRecord, SessionState

from ..engine.columns import COUNT, NAME, TEXT, TIME, Json, filled, keyed, keys, optional
from ..engine.listing import folded, moment, narrowed, order_by
from ..engine.rows import ModelTable

_EMPTY = text("''")

sessions = keyed(
    "sessions",
    *keys(NAME, "id"),
    *filled(NAME, "user", "server", "account", "environment", "environment_title", "space"),
    *filled(NAME, "work", server_default=_EMPTY),
    *filled(NAME, "job_id", "state", "ending_code", "stopped_by"),
    *filled(Json, "groups", "options", "nodes"),
    *filled(Boolean(), "partition_automatic", server_default=false()),
    *filled(TIME, "submitted_at"),
    *optional(TIME, "started_at", "ready_at", "ended_at"),
    *optional(COUNT, "peak_memory", "exit_code", "time_limit"),
    *filled(TEXT, "ending_message", "search"),
    # The long ones last: SQLite reads a row from its beginning to the last column asked for.
    *filled(TEXT, "log_path", "log"),
    Index(None, "user", "submitted_at"),
    Index(None, "submitted_at"),
    Index(None, "state", "submitted_at"),
    Index(None, "environment"),
    Index(None, "space", "submitted_at"),
)

_FIELDS = tuple(SessionRecord.model_fields)
_LONG = ("log_path", "log")
_LIVING = [state.value for state in SessionState if state is not SessionState.ENDED]
_TIMES = ("submitted_at", "started_at", "ended_at")
_SORTS = {name: sessions.c[name] for name in (*_TIMES, "user", "environment", "state", "job_id")}


class WorkRow(NamedTuple):
    """Sessions of a kind in a state; ``oldest``: Unix seconds."""

    work: str
    state: str
    number: int
    oldest: float


class SessionTable(ModelTable[SessionRecord]):
    """The table of sessions. Every method raises StoreUnavailable."""

    table, model = sessions, SessionRecord

    async def save(self, *records: SessionRecord) -> None:
        """Insert each record, or replace the one of the same id: all of them or none."""
        if not records:
            return
        rows = []
        for record in records:
            texts = (record.user, record.environment, record.environment_title, record.job_id)
            rows.append({**record.model_dump(), "search": folded(*texts, record.server)})
        await self._write(self._database.upsert(sessions), rows)

    async def get(self, id: str) -> SessionRecord | None:
        return await self._first(_records().where(sessions.c.id == id))

    async def find(
        self,
        *,
        user: str | None = None,
        server: str | None = None,
        state: SessionState | None = None,
        ended: bool | None = None,
        works: Collection[str] | None = None,
        other_works: Collection[str] = (),
        environment: str | None = None,
        text: str | None = None,
        since: float | None = None,
        until: float | None = None,
        sort: str = "-submitted_at",
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[list[SessionRecord], int]:
        """Return one page, and the total number. ``text`` is searched for in user, environment,
        job id and server; ``since`` <= submitted < ``until``; only those of ``works``, None: any,
        and none of ``other_works``. Raises InvalidRequest too."""
        state_name = state and state.value
        wanted = {"user": user, "server": server, "environment": environment, "state": state_name}
        query = narrowed(_records(), sessions, wanted, "submitted_at", since, until, text)
        if ended is not None:
            states = [SessionState.ENDED.value] if ended else _LIVING
            query = query.where(sessions.c.state.in_(states))
        if works is not None:
            query = query.where(sessions.c.work.in_(list(works)))
        if other_works:
            query = query.where(sessions.c.work.not_in(list(other_works)))
        return await self._page(query, order_by(sessions, sort, _SORTS), offset, limit)

    async def living(self) -> list[SessionRecord]:
        """Return all sessions that have not ended, oldest first."""
        query = _records().where(sessions.c.state.in_(_LIVING)).order_by(sessions.c.submitted_at)
        return await self._models(query)

    async def works(self) -> list[WorkRow]:
        """Return how many sessions have not ended, and when the oldest of them was submitted, by
        kind and state."""
        columns = sessions.c
        query = (
            select(columns.work, columns.state, func.count(), func.min(columns.submitted_at))
            .where(columns.state.in_(_LIVING))
            .group_by(columns.work, columns.state)
        )
        return [WorkRow(*row) for row in await self._rows_of(query)]

    async def people(self) -> int:
        """Return how many users have a session that has not ended."""
        query = select(func.count(sessions.c.user.distinct())).where(sessions.c.state.in_(_LIVING))
        return int((await self._rows_of(query))[0][0])

    async def of_space(self, space: str, since: float) -> list[SessionRecord]:
        """Return the sessions of a space that were submitted since ``since`` (Unix seconds) or
        have not ended, oldest first, without their logs."""
        columns = sessions.c
        query = (
            select(*(columns[name] for name in _FIELDS if name not in _LONG))
            .where(
                columns.space == space,
                (columns.submitted_at >= moment(since, "since")) | columns.state.in_(_LIVING),
            )
            .order_by(columns.submitted_at)
        )
        return await self._models(query)

    async def launches(
        self, user: str, works: Collection[str], *, ended_since: float | None = None, limit: int
    ) -> list[SessionRecord]:
        """Return a user's newest sessions of these kinds, without their logs: those launched last
        or, with ``ended_since`` (Unix seconds), those that have ended since, the last end first."""
        columns = sessions.c
        query = select(*(columns[name] for name in _FIELDS if name not in _LONG)).where(
            columns.user == user, columns.work.in_(list(works))
        )
        order = columns.submitted_at
        if ended_since is not None:
            order = columns.ended_at
            query = query.where(
                columns.state == SessionState.ENDED.value,
                columns.ended_at > moment(ended_since, "ended_since"),
            )
        return await self._models(query.order_by(order.desc(), columns.id).limit(limit))

    async def counted(self, space: str) -> dict[str, tuple[int, float]]:
        """Return the number of sessions that each person had in a space, and the time at which
        the last one was submitted (Unix seconds), by person."""
        columns = sessions.c
        query = (
            select(columns.user, func.count(), func.max(columns.submitted_at))
            .where(columns.space == space)
            .group_by(columns.user)
        )
        return {row[0]: (row[1], row[2]) for row in await self._rows_of(query)}

    async def last_used(self, user: str) -> dict[str, float]:
        """Return when this person last launched each environment (Unix seconds), by name."""
        columns = sessions.c
        query = (
            select(columns.environment, func.max(columns.submitted_at))
            .where(columns.user == user)
            .group_by(columns.environment)
        )
        rows = await self._rows_of(query)
        return {name: float(at) for name, at in rows if name}

    async def waits(self, since: float) -> list[tuple[dict[str, Any], float]]:
        """Return the options of sessions submitted since ``since``, and the seconds that each
        waited for its start; the newest 2000."""
        columns = sessions.c
        query = (
            select(columns.options, columns.started_at - columns.submitted_at)
            .where(columns.submitted_at >= moment(since, "since"), columns.started_at.is_not(None))
            .order_by(columns.submitted_at.desc())
            .limit(2000)
        )
        return [(row[0], max(0.0, float(row[1]))) for row in await self._rows_of(query)]

    async def prune(self, before: float) -> int:
        """Delete the sessions that ended before ``before``; return how many."""
        old = sessions.c.ended_at < moment(before, "before")
        ended = sessions.c.state == SessionState.ENDED.value
        return await self._write(delete(sessions).where(ended, old))


def _records() -> Any:
    return select(*(sessions.c[name] for name in _FIELDS))
