"""How long each step of a session's start took. Written by the service only."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import Column, Table, select

from .columns import NAME, TIME, Json, metadata
from .database import Database
from .listing import instant

startups = Table(
    "session_startups",
    metadata,
    Column("session_id", NAME, primary_key=True),
    Column("at", TIME, nullable=False),
    Column("steps", Json, nullable=False),
)


class StartupTable:
    """The table of starts. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def set(self, session_id: str, steps: Mapping[str, float], at: float) -> None:
        """Remember what the session said of its start: seconds by step."""
        values = {"session_id": session_id, "steps": dict(steps), "at": instant(at, "at")}
        insert = self._database.insert(startups).values(values)
        statement = insert.on_conflict_do_update(
            index_elements=["session_id"],
            set_={"steps": insert.excluded.steps, "at": insert.excluded.at},
        )
        await self._database.run(lambda to: to.execute(statement), write=True)

    async def of_sessions(self, ids: Collection[str]) -> dict[str, dict[str, float]]:
        """Seconds by step, by session id; those that never said are left out."""
        query = select(startups).where(startups.c.session_id.in_(list(ids)))
        rows = await self._database.run(lambda at: list(at.execute(query))) if ids else []
        return {row.session_id: dict(row.steps) for row in rows}
