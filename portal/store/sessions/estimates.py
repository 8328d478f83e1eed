"""Expected starts of sessions, as their owners were told. Written by the Hub only.

The sessions' own ``started_at`` tells how wrong they were.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Index, delete, select

from ..engine.columns import NAME, TIME, filled, keyed, keys, optional
from ..engine.listing import instant, moment
from ..engine.rows import StoreTable
from .sessions import sessions

estimates = keyed(
    "start_estimates",
    *keys(NAME, "session_id"),
    *filled(TIME, "made_at"),
    *optional(TIME, "expected_at"),  # None: nobody could say
    *filled(NAME, "source"),
    Index(None, "made_at"),
)


class Outcome(NamedTuple):
    """Estimate (``expected_at`` None: nobody could say) and actual start of a session. Times are
    Unix seconds."""

    options: dict[str, Any]
    source: str
    submitted_at: float
    expected_at: float | None
    started_at: float


class EstimateTable(StoreTable):
    """The table of estimates. Every method raises StoreUnavailable."""

    async def add_estimate(
        self, session_id: str, made_at: float, expected_at: float | None, source: str
    ) -> None:
        """Save the estimate made when the session was launched; the first one stays."""
        values = {
            "session_id": session_id,
            "made_at": instant(made_at, "made_at"),
            "expected_at": None if expected_at is None else instant(expected_at, "expected_at"),
            "source": source,
        }
        statement = self._database.insert(estimates).values(values).on_conflict_do_nothing()
        await self._write(statement)

    async def outcomes(self, since: float) -> list[Outcome]:
        """Return the estimates since ``since`` for sessions that have started; the newest 5000."""
        query = (
            select(
                sessions.c.options,
                estimates.c.source,
                sessions.c.submitted_at,
                estimates.c.expected_at,
                sessions.c.started_at,
            )
            .join(sessions, sessions.c.id == estimates.c.session_id)
            .where(estimates.c.made_at >= moment(since, "since"))
            .where(sessions.c.started_at.is_not(None))
            .order_by(estimates.c.made_at.desc())
            .limit(5000)
        )
        return await self._database.run(lambda at: [Outcome(*row) for row in at.execute(query)])

    async def prune(self, before: float) -> None:
        """Delete the estimates made before ``before``."""
        statement = delete(estimates).where(estimates.c.made_at < moment(before, "before"))
        await self._write(statement)
