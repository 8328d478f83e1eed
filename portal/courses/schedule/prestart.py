"""Preparation of a course's meetings: its image is copied to the nodes, and where the course wants
that, sessions are started for everyone."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from portal.errors import PortalError
from portal.models.audit import Outcome
from portal.models.course.audit import CourseAudit
from portal.models.course.course import StoredCourse
from portal.models.course.start import ReservationState, StartKind
from portal.models.space import SpaceState

from ..context import SERVICE, CourseContext
from ..definition.calendar import Meeting, meetings
from ..start.starting import Starter
from .plan import reservation_name

_FORGET = 86400.0  # seconds after a meeting's beginning at which it is forgotten here


class Prestart:
    """Preparation by the calendars. The database has what was started for which meeting."""

    def __init__(self, context: CourseContext, starter: Starter) -> None:
        self._context, self._starter = context, starter
        self._begun: dict[str, float] = {}  # reservations' names: when their meetings begin
        self._prepared: dict[str, float] = {}
        self._work: set[asyncio.Task[None]] = set()

    async def run_due(self, now: float) -> None:
        """Start what is due. Raises StoreUnavailable."""
        lead = 60.0 * self._context.settings.lead_minutes
        for stored in await self._context.store.courses.all(SpaceState.APPROVED):
            for meeting in meetings(stored.course, now, now + 2 * lead):
                # Twice as early: once the reservation begins, only the course gets its nodes.
                if stored.runs(meeting.begins) and meeting.begins > now:
                    self._prepare(stored, meeting)
                    if stored.course.prestart and meeting.begins - lead <= now:
                        await self._start(stored, meeting)
        self._begun = {name: at for name, at in self._begun.items() if at > now - _FORGET}
        self._prepared = {name: at for name, at in self._prepared.items() if at > now - _FORGET}

    async def close(self) -> None:
        """Cancel what is under way."""
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    # -- sessions -------------------------------------------------------------------------------

    async def _start(self, stored: StoredCourse, meeting: Meeting) -> None:
        name = reservation_name(stored.name, meeting.begins)
        if name in self._begun:
            return
        store, context = self._context.store, self._context
        if await store.starts.of_meeting(stored.name, meeting.begins) is None:
            release_at = meeting.begins + 60.0 * context.settings.claim_minutes
            try:
                start = await self._starter.start(
                    stored, StartKind.MEETING, SERVICE, meeting=meeting, release_at=release_at
                )
            except PortalError as error:
                if error.status >= 500:  # the database is away
                    raise
                detail, outcome = error.message, Outcome.FAILED
            else:
                number = len(await store.starts.seats(start.id))
                detail, outcome = f"For {number} members, before a meeting.", Outcome.DONE
            await context.noted(CourseAudit.START_COURSE, stored.name, detail, outcome=outcome)
        self._begun[name] = meeting.begins

    # -- the image ------------------------------------------------------------------------------

    def _prepare(self, stored: StoredCourse, meeting: Meeting) -> None:
        """Copy the image to the nodes in the background, once for each meeting."""
        name = reservation_name(stored.name, meeting.begins)
        if name not in self._prepared:
            self._prepared[name] = meeting.begins
            task = asyncio.ensure_future(self._bring(stored, name))
            self._work.add(task)
            task.add_done_callback(self._work.discard)

    async def _bring(self, stored: StoredCourse, name: str) -> None:
        context = self._context
        try:
            problems = [words for words in [await image_problem(stored)] if words]
            if not problems:
                problems = await self._copied(stored, name)
        except PortalError as error:
            problems = [error.message]
        except Exception:
            context.log.exception("The image of the course %s could not be prepared", stored.name)
            return
        for words in problems:
            await context.noted(
                CourseAudit.PREPARE_COURSE, stored.name, words, outcome=Outcome.FAILED
            )

    async def _copied(self, stored: StoredCourse, name: str) -> list[str]:
        """Unpack the image on the nodes of the meeting's reservation; return the failures."""
        copy, view = self._context.copy, self._context.view()
        held = view.snapshot.reservations.get(name) if view is not None else None
        if copy is None or stored.pinned is None or held is None:
            return []
        return [
            f"The image could not be unpacked on {node}: {words}"
            async for node, words in copy(stored.pinned, held.nodes)
            if words
        ]


async def image_problem(stored: StoredCourse) -> str:
    """Return why the image of the course's environment cannot be used, as far as this machine sees
    it; "" if nothing is known to be wrong."""
    image = stored.pinned.image if stored.pinned else None
    if stored.pinned is None:
        return "The course has no environment. Choose one and save the course."
    if not image or "://" in image:
        return ""

    def check_image() -> str:
        path = Path(image)
        if not path.exists():
            return f"The image '{image}' does not exist. An admin must build or pull it again."
        if not os.access(path, os.R_OK):
            return f"The image '{image}' cannot be read. An admin must change its permissions."
        return ""

    return await asyncio.to_thread(check_image)


async def missing(context: CourseContext, stored: StoredCourse, now: float) -> list[str]:
    """Return the problems of the course's next meetings, in sentences."""
    problems = [words for words in [await image_problem(stored)] if words]
    for reservation in await context.store.reservations.all(stored.name):
        if reservation.meeting_at > now and reservation.state is ReservationState.REFUSED:
            problems.append(
                f"The reservation {reservation.name} was refused: {reservation.message}"
            )
    return problems[:20]
