"""Duration of each step of a session's start. Written by the service only."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import Connection, select, update

from ..engine.columns import NAME, TIME, Json, filled, keyed, keys
from ..engine.listing import instant
from ..engine.rows import StoreTable

startups = keyed(
    "session_startups",
    *keys(NAME, "session_id"),
    *filled(TIME, "at"),
    *filled(Json, "steps"),
)


class StartupTable(StoreTable):
    """The table of starts. Every method raises StoreUnavailable."""

    async def add_steps(
        self,
        session_id: str,
        steps: Mapping[str, float],
        at: float,
        first_only: Collection[str] = (),
    ) -> None:
        """Save seconds by step, beside those that are known of this session already; a known step
        is replaced unless it is one of ``first_only``."""
        this = startups.c.session_id == session_id
        values = {"session_id": session_id, "steps": {}, "at": instant(at, "at")}
        new = self._database.insert(startups).values(values).on_conflict_do_nothing()

        def merge(to: Connection) -> None:
            to.execute(new)
            # The row exists now: a concurrent caller waits for this one.
            known = to.execute(select(startups.c.steps).where(this).with_for_update()).scalar_one()
            stay = {name: known[name] for name in first_only if name in known}
            merged = {**known, **steps, **stay}
            to.execute(update(startups).where(this).values(steps=merged, at=at))

        await self._database.run(merge, write=True)

    async def of_sessions(self, ids: Collection[str]) -> dict[str, dict[str, float]]:
        """Return seconds by step, by session id; those that never reported are left out."""
        rows = await self._rows_with(startups.c.session_id, ids)
        return {row.session_id: dict(row.steps) for row in rows}
