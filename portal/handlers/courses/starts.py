"""Starts of sessions for a whole course, and Slurm reservations for its meetings."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from pydantic import Field

from portal.courses.schedule.closeout import ended
from portal.courses.schedule.prestart import missing
from portal.courses.schedule.reservations import MeetingReservation
from portal.courses.start.rehearsal import report
from portal.errors import Conflict, InvalidRequest, NotFound
from portal.models import Frozen
from portal.models.course.audit import CourseAudit
from portal.models.course.course import StoredCourse
from portal.models.course.start import CourseStart, Seat, StartKind, StartReport
from portal.models.space import STAFF, SpaceState
from portal.work.course.parts import CourseParts

from ..base.action import Confirmation
from ..base.endpoint import Operation
from .access import COURSE, CourseAction

_START = r"[1-9][0-9]{0,17}"
_WITH_START = {"course": COURSE, "start": _START}


class StartRequest(Frozen):
    """``number``: how many students' sessions a rehearsal tries; null for all."""

    kind: Literal["all", "rehearsal"]
    number: Annotated[int, Field(ge=1, le=5000)] | None = None


class Starts(Frozen):
    """Last starts of a course, the newest first."""

    items: tuple[CourseStart, ...]


class StartDetail(Frozen):
    """Start of sessions, the seat of each person in it, and what came of it."""

    start: CourseStart
    seats: tuple[Seat, ...]
    report: StartReport


class CourseReservations(Frozen):
    """Next meetings of a course, and what is reserved in Slurm for each."""

    items: tuple[MeetingReservation, ...]


class CourseStarts(CourseAction):
    """Starts of sessions for a course."""

    path = "courses/{course}/starts"
    roles = STAFF

    @Operation("The last starts of sessions for a course.")
    async def on_get(self, course: str) -> Starts:
        """Return them, the newest first."""
        return Starts(items=tuple(await self.parts.store.starts.of_course(course)))

    @Operation(
        "Start a session for every student of a course, or rehearse it.",
        body=StartRequest,
        status=202,
        errors=(409,),
    )
    async def on_post(self, course: str) -> CourseStart:
        """Queue the start; it is worked off in the background."""
        kind, number = StartKind(self.body.kind), self.body.number
        detail = (
            f"Rehearsal with {number or 'all'} sessions." if kind is StartKind.REHEARSAL else ""
        )
        async with self.audited(
            CourseAudit.START_COURSE, f"course {course}", detail=detail
        ) as line:
            if number is not None and kind is not StartKind.REHEARSAL:
                raise InvalidRequest("'number' is for rehearsals only; remove it.", "number")
            stored = await self.parts.memberships.of_type("course").space(course, fresh=True)
            _demand_running(stored, kind)
            work = self.parts_for(CourseParts).course_work
            absent = await missing(work.context, stored, time.time())
            start = await work.starter.start(
                stored, kind, self.person.name, number=number, missing=absent
            )
            line.detail = f"Start {start.id}. {detail}".strip()
            return start


class OneStart(CourseAction):
    """Start by its id."""

    path = "courses/{course}/starts/{start}"
    parameters = _WITH_START
    roles = STAFF

    @Operation("A start of a course: the state of each session, and the report.")
    async def on_get(self, course: str, start: str) -> StartDetail:
        """Return a start of this course only."""
        course_start = await start_of(self, course, start)
        seats = tuple(await self.parts.store.starts.seats(course_start.id))
        absent = (
            course_start.message.splitlines() if course_start.kind is StartKind.REHEARSAL else ()
        )
        return StartDetail(
            start=course_start, seats=seats, report=report(course_start, seats, absent)
        )


class CancelStart(CourseAction):
    """Cancellation of a start."""

    path = "courses/{course}/starts/{start}/cancel"
    parameters = _WITH_START
    roles = STAFF

    @Operation(
        "Cancel a start: sessions of a rehearsal are stopped, others keep running.", errors=(409,)
    )
    async def on_post(self, course: str, start: str) -> Confirmation:
        """Start no further sessions."""
        async with self.audited(
            CourseAudit.CANCEL_COURSE_START, f"course {course}", detail=f"Start {start}."
        ):
            course_start = await start_of(self, course, start)
            number = await self.parts_for(CourseParts).course_work.starter.cancel(
                course_start, self.person.name
            )
        return self.done(f"Cancelled. {number} sessions will not be started.")


class Reserved(CourseAction):
    """Slurm reservations for a course's meetings."""

    path = "courses/{course}/reservations"
    roles = STAFF

    @Operation("The next meetings of a course with their reservations.")
    async def on_get(self, course: str) -> CourseReservations:
        """Return those from now on."""
        reservations = await self.parts_for(CourseParts).course_work.reservations.shown(
            self.stored, time.time()
        )
        return CourseReservations(items=tuple(reservations))


async def start_of(handler: CourseAction, course: str, start: str) -> CourseStart:
    """Return the start, if it is this course's. Raises NotFound."""
    course_start = await handler.parts.store.starts.get(int(start))
    if course_start.course != course:
        raise NotFound("There is no such start.")
    return course_start


def _demand_running(stored: StoredCourse, kind: StartKind) -> None:
    """Raise Conflict if the Hub would refuse every session."""
    now = time.time()
    if stored.state is not SpaceState.APPROVED:
        raise Conflict(f"The course is {stored.state}. Sessions can start after it is approved.")
    if why := ended(stored, now):
        raise Conflict(why)
    if kind is not StartKind.REHEARSAL and not stored.runs(now):
        raise Conflict(
            f"The course begins on {stored.course.begins}. Until then, you can rehearse a start."
        )


ENDPOINTS = (CourseStarts, OneStart, CancelStart, Reserved)
