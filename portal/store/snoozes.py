"""Until when a session's owner wants no word about idle GPUs. Written by the service only."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Column, Table, select

from .columns import NAME, TIME, metadata
from .database import Database
from .listing import instant

snoozes = Table(
    "idle_snoozes",
    metadata,
    Column("session_id", NAME, primary_key=True),
    Column("until", TIME, nullable=False),
)


class SnoozeTable:
    """The table of snoozes. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def set(self, session_id: str, until: float) -> None:
        """Remember one, in the place of an earlier one. ``until``: Unix seconds."""
        values = {"session_id": session_id, "until": instant(until, "until")}
        insert = self._database.insert(snoozes).values(values)
        statement = insert.on_conflict_do_update(
            index_elements=["session_id"], set_={"until": insert.excluded.until}
        )
        await self._database.run(lambda to: to.execute(statement), write=True)

    async def of_sessions(self, ids: Collection[str]) -> dict[str, float]:
        """Until when, by session id; those that never snoozed are left out."""
        query = select(snoozes).where(snoozes.c.session_id.in_(list(ids)))
        rows = await self._database.run(lambda at: list(at.execute(query))) if ids else []
        return {row.session_id: row.until for row in rows}
