"""Visits to Home: one row for each user. Written by the service only."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import select

from ..engine.columns import NAME, TIME, filled, keyed, keys
from ..engine.listing import instant
from ..engine.rows import StoreTable

visits = keyed(
    "home_visits",
    *keys(NAME, "user"),
    *filled(TIME, "before_at", "seen_at"),
)


class Visits(NamedTuple):
    """Times (Unix seconds): ``before_at``, the end of the visit before this one; ``seen_at``, the
    last look during this one."""

    before_at: float
    seen_at: float


class VisitTable(StoreTable):
    """The table of visits. Every method raises StoreUnavailable."""

    async def of_user(self, user: str) -> Visits | None:
        """Return a user's visits; None for a user who was never here."""
        rows = await self._rows_of(select(visits).where(visits.c.user == user))
        return Visits(rows[0].before_at, rows[0].seen_at) if rows else None

    async def set(self, user: str, seen: Visits) -> None:
        """Save a user's visits, in the place of earlier ones."""
        before_at, seen_at = instant(seen.before_at, "before_at"), instant(seen.seen_at, "seen_at")
        values = {"user": user, "before_at": before_at, "seen_at": seen_at}
        await self._write(self._database.upsert(visits), values)
