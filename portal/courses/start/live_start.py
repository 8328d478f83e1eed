"""A start in progress, as the service has it in memory, and what is under way for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from portal.errors import PortalError
from portal.models.course.start import CourseStart, Seat, SeatState
from portal.store import Store

from .seats import server_of

_DRIFT = 5.0  # seconds by which two clocks may differ without one of them having been set


@dataclass
class LiveStart:
    """Start in progress. ``unsure``: people whose servers the Hub is asked about first;
    ``strangers``: people it may not know yet; ``tries``: how often the Hub had nothing for
    somebody.

    The system clock may be set while sessions start. So ``began`` (when it was requested),
    ``looked_at`` and ``asked`` (when the Hub was asked for somebody) are of a monotonic clock;
    ``since`` is the earliest that the system clock has shown from then on. ``before``: sessions
    that existed before somebody was asked for; ``sessions``: the one started for them.
    """

    start: CourseStart
    seats: dict[str, Seat]
    began: float = field(default_factory=time.monotonic)
    unsure: set[str] = field(default_factory=set)
    strangers: set[str] = field(default_factory=set)
    tries: dict[str, int] = field(default_factory=dict)
    called_off: bool = False
    introducing: asyncio.Task[None] | None = None
    looked_at: float = float("-inf")
    asked: dict[str, float] = field(default_factory=dict)
    before: dict[str, frozenset[str]] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    since: float = field(init=False)
    _release: float | None = None  # when to release, by the same clock as ``began``
    _unsaved: set[str] = field(default_factory=set)
    _saving: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.since = self.start.asked_at

    def seen(self, now: float, uptime: float) -> None:
        """Record the time, by the system clock and by the monotonic one."""
        self.since = min(self.since, now)
        release_at = self.start.release_at
        if release_at is not None and self._release is None:
            self._release = uptime + release_at - now - _DRIFT

    def due(self, now: float, uptime: float) -> bool:
        """Return True if unclaimed seats are to be stopped; a clock that is set ahead does not
        shorten anybody's time to come."""
        release_at = self.start.release_at
        late = uptime >= (self._release or 0.0)
        return release_at is not None and now >= release_at and late

    @property
    def server(self) -> str:
        """Name of the servers that the start requests."""
        return server_of(self.start.course, self.start.kind)

    def some(self, *states: SeatState) -> list[Seat]:
        """Return the seats in one of these states."""
        return [seat for seat in self.seats.values() if seat.state in states]

    def put(self, *seats: Seat) -> None:
        """Set these seats; ``save`` stores them."""
        for seat in seats:
            self.seats[seat.person] = seat
            self._unsaved.add(seat.person)

    async def save(self, store: Store) -> None:
        """Store what has changed. Raises StoreUnavailable; the next call retries."""
        async with self._saving:  # in this order
            names, self._unsaved = self._unsaved, set()
            try:
                await store.starts.put([self.seats[name] for name in sorted(names)])
            except PortalError:
                self._unsaved |= names
                raise


class PendingRequests:
    """Requests to the Hub or Slurm for people of a start; ``over`` is set when one is done. A
    request that fails leaves its seat to be looked up."""

    def __init__(self, log: logging.Logger | logging.LoggerAdapter[Any]) -> None:
        self._log, self.over = log, asyncio.Event()
        self._tasks: dict[tuple[int, str], asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def has(self, live: LiveStart, person: str) -> bool:
        """Return True if something is under way for this person."""
        return (live.start.id, person) in self._tasks

    def begin(self, live: LiveStart, person: str, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` in the background."""
        key = (live.start.id, person)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.pop(key, None)
            if not task.cancelled() and task.exception() is not None:
                self._log.error(
                    "The start of a session for %s failed", person, exc_info=task.exception()
                )
                live.unsure.add(person)
            self.over.set()

        task = self._tasks[key] = asyncio.ensure_future(work)
        task.add_done_callback(done)

    async def settled(self) -> None:
        """Wait until all of it is done."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))
            await asyncio.sleep(0)  # for its callbacks

    async def close(self) -> None:
        """Cancel all of it."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
