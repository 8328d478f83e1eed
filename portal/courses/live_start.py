"""A start that is worked off, as the service has it in memory, and what is under way for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from portal.errors import PortalError
from portal.models.course_start import CourseStart, Seat, SeatState
from portal.store import Store

from .seats import server_of


@dataclass
class LiveStart:
    """``unsure``: whose servers the Hub is asked about first; ``strangers``: whom it may not know
    yet; ``tries``: how often the Hub had nothing of somebody."""

    start: CourseStart
    seats: dict[str, Seat]
    unsure: set[str] = field(default_factory=set)
    strangers: set[str] = field(default_factory=set)
    tries: dict[str, int] = field(default_factory=dict)
    called_off: bool = False
    introducing: asyncio.Task[None] | None = None
    looked_at: float = float("-inf")
    _unsaved: set[str] = field(default_factory=set)
    _saving: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def server(self) -> str:
        """The name of the servers that it asks for."""
        return server_of(self.start.course, self.start.kind)

    def some(self, *states: SeatState) -> list[Seat]:
        """The seats in one of these states."""
        return [one for one in self.seats.values() if one.state in states]

    def put(self, *seats: Seat) -> None:
        """These are so from now on; ``save`` keeps them."""
        for seat in seats:
            self.seats[seat.person] = seat
            self._unsaved.add(seat.person)

    async def save(self, store: Store) -> None:
        """Keep what has changed. Raises StoreUnavailable: the next call tries it again."""
        async with self._saving:  # in this order
            names, self._unsaved = self._unsaved, set()
            try:
                await store.starts.put([self.seats[name] for name in sorted(names)])
            except PortalError:
                self._unsaved |= names
                raise


class UnderWay:
    """What the Hub or Slurm is being asked for somebody of a start; ``over`` is set when one of
    these is. One that breaks leaves its seat to be looked up."""

    def __init__(self, log: logging.Logger | logging.LoggerAdapter[Any]) -> None:
        self._log, self.over = log, asyncio.Event()
        self._tasks: dict[tuple[int, str], asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def has(self, one: LiveStart, person: str) -> bool:
        """Whether something is under way for this person."""
        return (one.start.id, person) in self._tasks

    def begin(self, one: LiveStart, person: str, work: Coroutine[Any, Any, None]) -> None:
        """Do it beside everything else."""
        key = (one.start.id, person)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.pop(key, None)
            if not task.cancelled() and task.exception() is not None:
                self._log.error("A start of %s failed", person, exc_info=task.exception())
                one.unsure.add(person)
            self.over.set()

        task = self._tasks[key] = asyncio.ensure_future(work)
        task.add_done_callback(done)

    async def settled(self) -> None:
        """Until all of it is over."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))
            await asyncio.sleep(0)  # for what hears of its end

    async def close(self) -> None:
        """Let go of it."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
