"""Background work of the service for courses: starts, reservations, ends."""

from __future__ import annotations

import asyncio

from ..context import CourseContext
from ..files.nbgrader_exchange import Exchanges
from ..live.helping import Helping
from ..start.backpressure import Backpressure
from ..start.starting import Starter
from .closeout import Closeout
from .loop import CourseLoop, PeriodicWork
from .prestart import Prestart
from .reservations import Reservations


class CourseWork:
    """Background work for courses, one instance per service, in turn with the ``pieces`` of other
    parts. ``run`` is its loop; ``loop.add_pieces`` takes further ones."""

    def __init__(self, context: CourseContext, helping: Helping, *pieces: PeriodicWork) -> None:
        self.context, store, settings = context, context.store, context.settings
        self.starter = Starter(context)
        self.rush = Backpressure(store, lambda: self.starter.live)
        self.reservations = Reservations(context)
        self._prestart = Prestart(context, self.starter)
        self.loop = CourseLoop(settings, context.log)
        over = Closeout(context, self.starter, helping.end_all)
        self.loop.add_pieces(
            self.starter, self.starter.refill, self._prestart, self.reservations, over
        )
        self.loop.add_pieces(helping, *pieces)
        self.loop.add_pieces(Exchanges(store, settings.exchange_directory, context.log))

    async def run(self) -> None:
        """Run the loop until cancelled."""
        try:
            await self.loop.run()
        finally:
            await asyncio.gather(self.starter.close(), self._prestart.close())
