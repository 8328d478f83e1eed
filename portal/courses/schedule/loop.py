"""Periodic work of courses: each piece in a loop of its own, so that a slow one delays no other
and a failure ends none."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from portal.periodic import Periodic

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
        self._loops: list[Periodic] = []

    def add_pieces(self, *pieces: PeriodicWork) -> None:
        """Add pieces to the loop."""
        self._loops += map(self._loop_of, pieces)

    async def run(self) -> None:
        """Run all pieces for ever."""
        await asyncio.gather(*(loop.run() for loop in self._loops))

    def _loop_of(self, piece: PeriodicWork) -> Periodic:
        own = float(getattr(piece, "interval", 0.0))
        return Periodic(
            f"Courses: {type(piece).__name__}",
            lambda: piece.run_due(self._wall()),
            lambda _: own or self._settings.interval,
            self._log,
            wake=getattr(piece, "wake", None),
        )
