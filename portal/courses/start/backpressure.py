"""While a class is being started, what can wait waits.

Thirty sessions that bring the handouts beside thirty servers that start make all of them late, and
nobody is there yet to read what they bring.
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
_AGE = 2.0  # seconds for which the answer who has come is told to all


class Rush:
    """One a service. ``live`` gives the starts that are worked off; ``uptime`` is the clock of
    theirs that nobody sets."""

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
        """Whether others of this session's course are being started, and its owner has not come
        yet. Raises nothing."""
        return record.course in self._courses() and record.id not in await self._opened.get()

    def _courses(self) -> set[str]:
        since = self._uptime() - _LONGEST
        return {
            one.start.course
            for one in self._live()
            if one.began > since and one.some(SeatState.WAITING, SeatState.STARTING)
        }

    async def _ask(self) -> frozenset[str]:
        """The sessions of these courses that their owners have opened."""
        told = [one for name in self._courses() for one in await self._store.presence.of(name)]
        return frozenset(one.session_id for one in told if one.opened_at is not None)
