"""Snoozes: the time until which a session's owner wants no word about idle GPUs, and their number.
Written by the service only."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Column, Table, select

from ..engine.columns import COUNT, NAME, TIME, metadata
from ..engine.database import Database
from ..engine.listing import instant

snoozes = Table(
    "idle_snoozes",
    metadata,
    Column("session_id", NAME, primary_key=True),
    Column("until", TIME, nullable=False),
    Column("times", COUNT, nullable=False),
)


class Snooze(NamedTuple):
    """Snooze ``until`` a time (Unix seconds); ``times``: number since the last use of the GPUs."""

    until: float
    times: int


class SnoozeTable:
    """The table of snoozes. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def set(self, session_id: str, snooze: Snooze) -> None:
        """Save a session's snooze, in the place of an earlier one."""
        until, times = instant(snooze.until, "until"), snooze.times
        values = {"session_id": session_id, "until": until, "times": times}
        statement = self._database.upsert(snoozes)
        await self._database.run(lambda to: to.execute(statement, values), write=True)

    async def of_sessions(self, ids: Collection[str]) -> dict[str, Snooze]:
        """Return the last snooze by session id; those that never snoozed are left out."""
        query = select(snoozes).where(snoozes.c.session_id.in_(list(ids)))
        rows = await self._database.run(lambda at: list(at.execute(query))) if ids else []
        return {row.session_id: Snooze(row.until, row.times) for row in rows}
