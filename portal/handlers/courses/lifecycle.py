"""``api/v1/courses/{course}/…``: life cycle and meetings of a course."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import date
from typing import Annotated

from pydantic import Field, StringConstraints

from portal.courses.definition.calendar import meetings
from portal.errors import InvalidRequest
from portal.models import Frozen
from portal.models.audit import AuditedAction
from portal.models.course.audit import CourseAudit
from portal.models.course.course import CourseName, StoredCourse
from portal.models.person import Person
from portal.models.plain_text import PLAIN_TEXT
from portal.models.scope import COURSES_MANAGE
from portal.models.space import Role
from portal.work.course.parts import CourseParts

from ..base.endpoint import Operation, Query
from .access import EVERYONE, INSTRUCTORS, CourseAction
from .courses import CourseDetail, Number, detail

Decision = Callable[[StoredCourse, int, Person, str], Awaitable[StoredCourse]]
_Answer = Annotated[str, StringConstraints(max_length=2000, strip_whitespace=True), *PLAIN_TEXT]
_NOBODY: frozenset[Role] = frozenset()  # admins alone, by their scope
_SPAN = 200 * 86400.0  # seconds of meetings that are shown if no end is given
_MOST_MEETINGS = 1000
_Time = Annotated[float, Field(ge=0, le=32503680000, allow_inf_nan=False)]


class CourseStep(Frozen):
    """Step in a course's life cycle. ``number``: of the state that was looked at."""

    number: Number


class CourseAnswer(CourseStep):
    """Answer of an admin to a request."""

    answer: _Answer = ""


class CourseCopy(Frozen):
    """Copy for another term: ``begins`` moves all dates. ``students``: their list comes along."""

    name: CourseName
    begins: date
    title: Annotated[str, StringConstraints(max_length=120, strip_whitespace=True)] = ""
    students: bool = False


class MeetingQuery(Query):
    """Span of the meetings."""

    since: Annotated[_Time | None, Field(description="Unix seconds. Default: now.")] = None
    until: Annotated[_Time | None, Field(description="Unix seconds. Default: 200 days later.")] = (
        None
    )


class MeetingItem(Frozen):
    """Meeting, in Unix seconds."""

    begins: float
    ends: float


class MeetingList(Frozen):
    """Meetings, the earliest first, and the time zone of the course's calendar."""

    items: tuple[MeetingItem, ...]
    timezone: str


class CourseSubmit(CourseAction):
    """Request for a course's approval."""

    path = "courses/{course}/submit"
    roles = INSTRUCTORS

    @Operation("Request a course's approval.", body=CourseStep, errors=(409,))
    async def on_post(self, course: str) -> CourseDetail:
        """Submit it. On a site that requires no approval, this approves it."""
        async with self.audited(CourseAudit.SUBMIT_COURSE, f"course {course}") as line:
            stored = await self.parts_for(CourseParts).course_service.submit(
                self.stored, self.body.number, self.person
            )
            line.detail = f"New state: {stored.state}."
        return await detail(self, stored, self.role)


class CourseDecision(CourseAction):
    """Base class of an admin's answers to a request."""

    roles = _NOBODY

    async def decide(self, action: AuditedAction, decision: Decision) -> CourseDetail:
        """Carry out the decision, with an entry for ``action`` in the audit log."""
        body: CourseAnswer = self.body
        async with self.audited(action, f"course {self.stored.name}", detail=body.answer):
            stored = await decision(self.stored, body.number, self.person, body.answer)
        return await detail(self, stored, self.role)


class CourseApprove(CourseDecision):
    """Approval by an admin."""

    path = "courses/{course}/approve"

    @Operation("Approve a course.", body=CourseAnswer, scope=COURSES_MANAGE, errors=(409,))
    async def on_post(self, course: str) -> CourseDetail:
        """Let it run on its days from now on."""
        return await self.decide(
            CourseAudit.APPROVE_COURSE, self.parts_for(CourseParts).course_service.approve
        )


class CourseRefuse(CourseDecision):
    """Refusal by an admin."""

    path = "courses/{course}/refuse"

    @Operation("Refuse a course.", body=CourseAnswer, scope=COURSES_MANAGE, errors=(409,))
    async def on_post(self, course: str) -> CourseDetail:
        """Say why: its instructor reads it, changes the course and asks again."""
        return await self.decide(
            CourseAudit.REFUSE_COURSE, self.parts_for(CourseParts).course_service.refuse
        )


class CourseArchive(CourseAction):
    """Archival of a course."""

    path = "courses/{course}/archive"
    roles = INSTRUCTORS

    @Operation("Archive a course.", body=CourseStep, errors=(409,))
    async def on_post(self, course: str) -> CourseDetail:
        """End its sessions, reservations and shares; the files of its members stay."""
        async with self.audited(CourseAudit.ARCHIVE_COURSE, f"course {course}"):
            stored = await self.parts_for(CourseParts).course_service.archive(
                self.stored, self.body.number
            )
        return await detail(self, stored, self.role)


class CourseCopied(CourseAction):
    """Copy of a course for another term."""

    path = "courses/{course}/copy"
    roles = INSTRUCTORS

    @Operation("Copy a course to another term.", body=CourseCopy, status=201, errors=(409,))
    async def on_post(self, course: str) -> CourseDetail:
        """Make a draft with the same staff.

        Single dates move by whole weeks; holidays are left out, and so is the roster unless it is
        asked for.
        """
        body: CourseCopy = self.body
        async with self.audited(
            CourseAudit.COPY_COURSE, f"course {course}", detail=f"To {body.name}."
        ):
            stored = await self.parts_for(CourseParts).course_service.copy(
                self.stored,
                self.person,
                name=body.name,
                begins=body.begins,
                title=body.title,
                students=body.students,
            )
        return await detail(self, stored, Role.INSTRUCTOR)


class CourseMeetings(CourseAction):
    """Calendar of a course."""

    path = "courses/{course}/meetings"
    roles = EVERYONE

    @Operation("A course's meetings.", query=MeetingQuery)
    async def on_get(self, course: str) -> MeetingList:
        """Return those that are on at some moment of the span."""
        since = time.time() if self.query.since is None else self.query.since
        until = since + _SPAN if self.query.until is None else self.query.until
        if until < since:
            raise InvalidRequest("'until' is before 'since'.", "until")
        listed = meetings(self.stored.course, since, until)[:_MOST_MEETINGS]
        return MeetingList(
            items=tuple(
                MeetingItem(begins=meeting.begins, ends=meeting.ends) for meeting in listed
            ),
            timezone=self.stored.course.timezone,
        )


ENDPOINTS = (
    CourseSubmit,
    CourseApprove,
    CourseRefuse,
    CourseArchive,
    CourseCopied,
    CourseMeetings,
)
