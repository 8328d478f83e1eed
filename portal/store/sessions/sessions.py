"""Records of sessions. Written by the Hub's process only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Connection, Index, Row, Table, delete, func, select

from portal.models.session.session import SessionRecord, SessionState

from ..engine.columns import COUNT, NAME, TEXT, TIME, Json, metadata
from ..engine.database import Database
from ..engine.listing import containing, folded, moment, one_page, order_by

sessions = Table(
    "sessions",
    metadata,
    Column("id", NAME, primary_key=True),
    Column("user", NAME, nullable=False),
    Column("server", NAME, nullable=False),
    Column("account", NAME, nullable=False),
    Column("groups", Json, nullable=False),
    Column("environment", NAME, nullable=False),
    Column("environment_title", NAME, nullable=False),
    Column("options", Json, nullable=False),
    Column("course", NAME, nullable=False),
    Column("job_id", NAME, nullable=False),
    Column("state", NAME, nullable=False),
    Column("submitted_at", TIME, nullable=False),
    Column("started_at", TIME),
    Column("ready_at", TIME),
    Column("ended_at", TIME),
    Column("nodes", Json, nullable=False),
    Column("ending_code", NAME, nullable=False),
    Column("ending_message", TEXT, nullable=False),
    Column("stopped_by", NAME, nullable=False),
    Column("peak_memory", COUNT),
    Column("exit_code", COUNT),
    Column("time_limit", COUNT),
    Column("search", TEXT, nullable=False),
    # The long ones last: SQLite reads a row from its beginning to the last column asked for.
    Column("log_path", TEXT, nullable=False),
    Column("log", TEXT, nullable=False),
    Index(None, "user", "submitted_at"),
    Index(None, "submitted_at"),
    Index(None, "state", "submitted_at"),
    Index(None, "environment"),
    Index(None, "course", "submitted_at"),
)

_FIELDS = tuple(SessionRecord.model_fields)
_LONG = ("log_path", "log")
_LIVING = [state.value for state in SessionState if state is not SessionState.ENDED]
_SORTS = {
    name: sessions.c[name]
    for name in (
        "submitted_at",
        "started_at",
        "ended_at",
        "user",
        "environment",
        "state",
        "job_id",
    )
}


class SessionTable:
    """The table of sessions. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, *records: SessionRecord) -> None:
        """Insert each record, or replace the one of the same id: all of them or none."""
        if not records:
            return
        rows = []
        for record in records:
            texts = (record.user, record.environment, record.environment_title, record.job_id)
            rows.append({**record.model_dump(), "search": folded(*texts, record.server)})
        statement = self._database.upsert(sessions)
        await self._database.run(lambda to: to.execute(statement, rows), write=True)

    async def get(self, id: str) -> SessionRecord | None:
        query = _records().where(sessions.c.id == id)

        def ask(at: Connection) -> SessionRecord | None:
            row = at.execute(query).first()
            return None if row is None else _record(row)

        return await self._database.run(ask)

    async def find(
        self,
        *,
        user: str | None = None,
        state: SessionState | None = None,
        ended: bool | None = None,
        environment: str | None = None,
        text: str | None = None,
        since: float | None = None,
        until: float | None = None,
        sort: str = "-submitted_at",
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[list[SessionRecord], int]:
        """Return one page, and the total number. ``text`` is searched for in user, environment,
        job id and server; ``since`` <= submitted < ``until``. Raises InvalidRequest too."""
        query = _records()
        if user is not None:
            query = query.where(sessions.c.user == user)
        if state is not None:
            query = query.where(sessions.c.state == state.value)
        if ended is not None:
            states = [SessionState.ENDED.value] if ended else _LIVING
            query = query.where(sessions.c.state.in_(states))
        if environment is not None:
            query = query.where(sessions.c.environment == environment)
        if text:
            query = query.where(containing(sessions.c.search, text))
        if since is not None:
            query = query.where(sessions.c.submitted_at >= moment(since, "since"))
        if until is not None:
            query = query.where(sessions.c.submitted_at < moment(until, "until"))
        order = order_by(sessions, sort, _SORTS)
        return await self._database.run(
            lambda at: one_page(at, query, order, offset, limit, _record)
        )

    async def living(self) -> list[SessionRecord]:
        """Return all sessions that have not ended, oldest first."""
        query = _records().where(sessions.c.state.in_(_LIVING)).order_by(sessions.c.submitted_at)
        return await self._database.run(lambda at: [_record(row) for row in at.execute(query)])

    async def of_course(self, course: str, since: float) -> list[SessionRecord]:
        """Return the sessions of a course that were submitted since ``since`` (Unix seconds) or
        have not ended, oldest first, without their logs."""
        columns = sessions.c
        query = (
            select(*(columns[name] for name in _FIELDS if name not in _LONG))
            .where(
                columns.course == course,
                (columns.submitted_at >= moment(since, "since")) | columns.state.in_(_LIVING),
            )
            .order_by(columns.submitted_at)
        )
        return await self._database.run(lambda at: [_record(row) for row in at.execute(query)])

    async def counted(self, course: str) -> dict[str, tuple[int, float]]:
        """Return the number of sessions that each person had in a course, and the time at which
        the last one was submitted (Unix seconds), by person."""
        columns = sessions.c
        query = (
            select(columns.user, func.count(), func.max(columns.submitted_at))
            .where(columns.course == course)
            .group_by(columns.user)
        )
        return await self._database.run(
            lambda at: {row[0]: (row[1], row[2]) for row in at.execute(query)}
        )

    async def last_used(self, user: str) -> dict[str, float]:
        """Return when this person last launched each environment (Unix seconds), by name."""
        columns = sessions.c
        query = (
            select(columns.environment, func.max(columns.submitted_at))
            .where(columns.user == user)
            .group_by(columns.environment)
        )
        rows = await self._database.run(lambda at: list(at.execute(query)))
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
        return await self._database.run(
            lambda at: [(row[0], max(0.0, float(row[1]))) for row in at.execute(query)]
        )

    async def prune(self, before: float) -> int:
        """Delete the sessions that ended before ``before``; return how many."""
        old = sessions.c.ended_at < moment(before, "before")
        statement = delete(sessions).where(sessions.c.state == SessionState.ENDED.value, old)
        return await self._database.run(lambda to: to.execute(statement).rowcount, write=True)


def _records() -> Any:
    return select(*(sessions.c[name] for name in _FIELDS))


def _record(row: Row[Any]) -> SessionRecord:
    return SessionRecord.model_validate(row._asdict())
