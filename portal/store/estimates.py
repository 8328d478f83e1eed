"""When sessions were expected to start, as their owners were told. Written by the Hub only.

How wrong that was is told by the sessions' own ``started_at``.
"""

from __future__ import annotations

from sqlalchemy import Column, Index, Table

from .columns import NAME, TIME, metadata
from .database import Database
from .listing import instant

estimates = Table(
    "start_estimates",
    metadata,
    Column("session_id", NAME, primary_key=True),
    Column("made_at", TIME, nullable=False),
    Column("expected_at", TIME),  # None: nobody could say
    Column("source", NAME, nullable=False),
    Index(None, "made_at"),
)


class EstimateTable:
    """The table of estimates. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self, session_id: str, made_at: float, expected_at: float | None, source: str
    ) -> None:
        """Remember what was said when the session was launched; the first word stays."""
        values = {
            "session_id": session_id,
            "made_at": instant(made_at, "made_at"),
            "expected_at": None if expected_at is None else instant(expected_at, "expected_at"),
            "source": source,
        }
        statement = self._database.insert(estimates).values(values).on_conflict_do_nothing()
        await self._database.run(lambda to: to.execute(statement), write=True)
