"""Periodic work of courses: each piece in a loop of its own, so that a slow one delays no other
and a failure ends none."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from portal.errors import PortalError

from ..settings import Courses


@runtime_checkable
class PeriodicWork(Protocol):
    """Piece of work that runs now and then. If it has ``wake``, an asyncio.Event, it runs again at
    once when that is set; ``interval`` (seconds) is its own period."""

    async def run_due(self, now: float) -> None:
        """Do what is due at ``now`` (Unix seconds). A PortalError is retried later."""
        ...


class CourseLoop:
    """Loop that runs its pieces every ``settings.interval`` seconds; add them before ``run``."""

    def __init__(
        self,
        settings: Courses,
        log: logging.Logger | logging.LoggerAdapter[Any],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._log, self._wall = settings, log, wall
        self._pieces: list[PeriodicWork] = []
        self._complaints: dict[int, str] = {}

    def add_pieces(self, *pieces: PeriodicWork) -> None:
        """Add pieces to the loop."""
        self._pieces += pieces

    async def run(self) -> None:
        """Run all pieces for ever."""
        await asyncio.gather(*(self._keep(piece) for piece in self._pieces))

    async def run_piece(self, piece: PeriodicWork) -> None:
        """Run a piece once, now. Raises nothing."""
        name = type(piece).__name__
        try:
            await piece.run_due(self._wall())
            if self._complaints.pop(id(piece), ""):
                self._log.warning("Courses: %s continues.", name)
        except PortalError as error:  # logged once, not every two seconds
            if self._complaints.get(id(piece)) != error.message:
                self._log.warning("Courses: %s failed; retrying: %s", name, error)
            self._complaints[id(piece)] = error.message
        except Exception:
            self._log.exception("Courses: %s failed; retrying", name)

    async def _keep(self, piece: PeriodicWork) -> None:
        wake: asyncio.Event | None = getattr(piece, "wake", None)
        pause = float(getattr(piece, "interval", 0.0)) or self._settings.interval
        while True:
            if wake is not None:
                wake.clear()
            await self.run_piece(piece)
            if wake is None:
                await asyncio.sleep(pause)
            else:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(wake.wait(), pause)
