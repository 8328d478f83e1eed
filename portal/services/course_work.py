"""Background work of the service for courses: starts, reservations, ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from portal.catalog.builds.node_copies import NodeCopies
from portal.courses.context import CourseContext
from portal.courses.files.nbgrader_exchange import Exchanges
from portal.courses.schedule.closeout import Closeout
from portal.courses.schedule.loop import CourseLoop
from portal.courses.schedule.prestart import Prestart
from portal.courses.schedule.reservations import Reservations
from portal.courses.start.backpressure import Backpressure
from portal.courses.start.starting import Starter
from portal.models.catalog.environment import Environment
from portal.models.catalog.image_job import WorkState
from portal.slurm.control.reservations import ReservationControl

if TYPE_CHECKING:
    from .core import CoreServices


class CourseWork:
    """Background work for courses, one instance per service. ``run`` is its loop;
    ``loop.add_pieces`` takes further tasks."""

    def __init__(self, parts: CoreServices) -> None:
        self._copies = NodeCopies(parts.cluster, parts.build_scheduler.images, parts.log)
        self.context = CourseContext(
            store=parts.store,
            hub=parts.hub,
            memberships=parts.memberships,
            settings=parts.courses,
            cluster=parts.cluster,
            control=parts.control,
            reserving=ReservationControl(parts.cluster.runner),
            view=lambda: parts.dashboard.view,
            note=parts.note,
            log=parts.log,
            wall=time.time,
            copy=self._copy if parts.build_scheduler.images.node_cache else None,
        )
        self.starter = Starter(self.context)
        self.rush = Backpressure(parts.store, lambda: self.starter.live)
        self.reservations = Reservations(self.context)
        self._prestart = Prestart(self.context, self.starter)
        self.loop = CourseLoop(parts.courses, parts.log)
        over = Closeout(self.context, self.starter, parts.helping.end_all)
        self.loop.add_pieces(
            self.starter, self.starter.refill, self._prestart, self.reservations, over
        )
        self.loop.add_pieces(
            parts.course_service.enrolment, parts.helping, parts.rooms, parts.handouts
        )
        self.loop.add_pieces(Exchanges(parts.store, parts.courses.exchange_directory, parts.log))

    async def run(self) -> None:
        """Run the loop until cancelled."""
        try:
            await self.loop.run()
        finally:
            await asyncio.gather(self.starter.close(), self._prestart.close())

    async def _copy(
        self, environment: Environment, nodes: Sequence[str]
    ) -> AsyncIterator[tuple[str, str]]:
        async for node, end in self._copies.make(environment, nodes):
            yield node, "" if end.state is WorkState.PASSED else end.message
