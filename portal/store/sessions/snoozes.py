"""Snoozes: the time until which a session's owner wants no word about idle GPUs, and their number.
Written by the service only."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ..engine.columns import COUNT, NAME, TIME, filled, keyed, keys
from ..engine.listing import instant
from ..engine.rows import StoreTable

snoozes = keyed(
    "idle_snoozes",
    *keys(NAME, "session_id"),
    *filled(TIME, "until"),
    *filled(COUNT, "times"),
)


class Snooze(NamedTuple):
    """Snooze ``until`` a time (Unix seconds); ``times``: number since the last use of the GPUs."""

    until: float
    times: int


class SnoozeTable(StoreTable):
    """The table of snoozes. Every method raises StoreUnavailable."""

    async def set(self, session_id: str, snooze: Snooze) -> None:
        """Save a session's snooze, in the place of an earlier one."""
        until, times = instant(snooze.until, "until"), snooze.times
        values = {"session_id": session_id, "until": until, "times": times}
        await self._write(self._database.upsert(snoozes), values)

    async def of_sessions(self, ids: Collection[str]) -> dict[str, Snooze]:
        """Return the last snooze by session id; those that never snoozed are left out."""
        rows = await self._rows_with(snoozes.c.session_id, ids)
        return {row.session_id: Snooze(row.until, row.times) for row in rows}
