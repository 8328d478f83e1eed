"""Backpressure while a class is being started: work that can wait, waits.

Thirty sessions that fetch the handouts beside thirty servers that start make all of them late, and
nobody is there yet to read the handouts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from portal.cache import SharedAnswer
from portal.models.course.start import SeatState
from portal.models.session.session import SessionRecord
from portal.store import Store

from .live_start import LiveStart

_LONGEST = 180.0  # seconds after the start was asked for; some of a class may wait for hours
_AGE = 2.0  # seconds for which the opened sessions are cached


class Backpressure:
    """Backpressure of starts; one instance a service. ``live`` returns the starts in progress;
    ``uptime`` is their monotonic clock."""

    def __init__(
        self,
        store: Store,
        live: Callable[[], Collection[LiveStart]],
        uptime: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._live, self._uptime = store, live, uptime
        self._opened = SharedAnswer[frozenset[str]](
            self._ask, ttl=_AGE, patience=1.0, first=frozenset()
        )

    async def waits(self, record: SessionRecord) -> bool:
        """Return True if others of this session's course are being started, and its owner has not
        come yet. Raises nothing."""
        return record.space in self._courses() and record.id not in await self._opened.get()

    def _courses(self) -> set[str]:
        since = self._uptime() - _LONGEST
        return {
            live.start.course
            for live in self._live()
            if live.began > since and live.some(SeatState.WAITING, SeatState.STARTING)
        }

    async def _ask(self) -> frozenset[str]:
        """Return the sessions of these courses that their owners have opened."""
        presences = [
            presence
            for name in self._courses()
            for presence in await self._store.presence.of_course(name)
        ]
        return frozenset(
            presence.session_id for presence in presences if presence.opened_at is not None
        )
