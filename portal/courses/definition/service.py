"""Service that creates, submits, approves, changes, copies and archives courses."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from portal.errors import Conflict, InvalidRequest, NotAllowed
from portal.models.course.course import Course, CourseMember, StoredCourse
from portal.models.person import Person
from portal.models.scope import COURSES_CREATE, COURSES_MANAGE
from portal.models.space import STAFF, Role, SpaceState
from portal.spaces.membership_cache import MembershipCache
from portal.store import Store

from ..roster.enrolment import Enrolment
from ..settings import Courses
from .rules import Checked, CourseRules

_WEEK = 7


@dataclass
class CourseService:
    """Actions on courses. Every method raises StoreUnavailable; those that change a course raise
    Conflict if somebody else changed it since ``number``, or its state does not fit."""

    store: Store
    memberships: MembershipCache
    rules: CourseRules
    enrolment: Enrolment
    settings: Courses

    def may_create(self, by: Person) -> bool:
        """Return True if the person may create a course."""
        return by.may(COURSES_MANAGE) or (
            self.settings.creation != "off" and by.may(COURSES_CREATE)
        )

    def demand_creation(self, by: Person) -> None:
        """Raise NotAllowed, with a sentence, if ``may_create`` is false."""
        if self.may_create(by):
            return
        if self.settings.creation == "off":
            raise NotAllowed("Only admins can create courses. Ask an admin of this portal.")
        raise NotAllowed("Only instructors can create courses. Ask an admin for this role.")

    async def check(
        self, course: Course, by: Person, before: StoredCourse | None = None
    ) -> Checked:
        """Check a course before it is saved."""
        return await self.rules.check(course, by, before, now=time.time())

    async def create(self, course: Course, by: Person, instructor: str = "") -> StoredCourse:
        """Create a course, a draft of ``instructor`` ("": ``by``). Raises NotAllowed,
        InvalidRequest for the first problem, Conflict if the name is taken."""
        self.demand_creation(by)
        instructor = instructor or by.name
        if instructor != by.name and not by.may(COURSES_MANAGE):
            raise NotAllowed(
                "You can only create courses of your own. Add other instructors afterwards."
            )
        stored = self._new(await self._valid(course, by), by)
        await self.store.courses.add_space(stored, [self._member(stored, instructor, by)])
        self.memberships.forget()
        return stored

    async def edit(
        self, stored: StoredCourse, course: Course, number: int, by: Person
    ) -> StoredCourse:
        """Replace the definition with ``course``. A refused course becomes a draft again. Raises
        InvalidRequest."""
        self._demand(stored, number, *(state for state in SpaceState if state != "archived"))
        if course.name != stored.name:
            raise InvalidRequest(
                f"The name '{stored.name}' cannot be changed: folders and sessions use it. Copy "
                "the course to give it another name.",
                "name",
            )
        checked = await self._valid(course, by, stored)
        state = SpaceState.DRAFT if stored.state is SpaceState.REFUSED else stored.state
        return await self._save(stored, course=checked.course, pinned=checked.pinned, state=state)

    async def submit(self, stored: StoredCourse, number: int, by: Person) -> StoredCourse:
        """Request approval; if the site needs none, the course is approved. Raises InvalidRequest
        if it could not be saved as it is now."""
        self._demand(stored, number, SpaceState.DRAFT, SpaceState.REFUSED)
        checked = await self._valid(stored.course, by, stored)
        values = {"course": checked.course, "pinned": checked.pinned}
        if by.may(COURSES_MANAGE) or self.settings.creation == "free":
            return await self._answered(stored, SpaceState.APPROVED, by, "", **values)
        return await self._save(stored, state=SpaceState.REQUESTED, **values)

    async def approve(
        self, stored: StoredCourse, number: int, by: Person, answer: str = ""
    ) -> StoredCourse:
        """Approve the course. Raises InvalidRequest if its environment no longer exists."""
        self._demand(stored, number, SpaceState.REQUESTED, SpaceState.DRAFT)
        checked = await self._valid(stored.course, by, stored)
        values = {"course": checked.course, "pinned": checked.pinned}
        return await self._answered(stored, SpaceState.APPROVED, by, answer, **values)

    async def refuse(
        self, stored: StoredCourse, number: int, by: Person, answer: str
    ) -> StoredCourse:
        """Refuse a request, with the reason."""
        self._demand(stored, number, SpaceState.REQUESTED)
        if not answer:
            raise InvalidRequest("'answer': give the reason for the refusal.", "answer")
        return await self._answered(stored, SpaceState.REFUSED, by, answer)

    async def archive(self, stored: StoredCourse, number: int) -> StoredCourse:
        """Archive the course: nothing starts any more; everybody's work and the roster stay."""
        self._demand(stored, number, *(state for state in SpaceState if state != "archived"))
        return await self._save(stored, state=SpaceState.ARCHIVED, archived_at=time.time())

    async def copy(
        self,
        stored: StoredCourse,
        by: Person,
        *,
        name: str,
        begins: date,
        title: str = "",
        students: bool = False,
    ) -> StoredCourse:
        """Create a draft of the course for another term, with its staff, and its students if
        requested. Single dates move by whole weeks, so that a Friday stays a Friday; holidays are
        left out, since they are other days then. The environment keeps its version.

        Raises NotAllowed, InvalidRequest, Conflict if the name is taken.
        """
        self.demand_creation(by)
        values = stored.course.model_dump(mode="json")
        values |= moved(stored.course, begins) | {
            "name": name,
            "title": title or stored.course.title,
        }
        if not students:
            values["roster_group"] = ""
        course = Course.model_validate(values)
        checked = await self._valid(course, by, stored, copied=True)
        draft = self._new(checked, by)
        members = {
            member.person: member.model_copy(
                update={"course": name, "added_at": draft.created_at, "joined_at": None}
            )
            for member in await self.store.members.of_space(stored.name)
            if member.role in STAFF or (students and member.source == "list")
        }
        members[by.name] = self._member(draft, by.name, by)
        await self.store.courses.add_space(draft, list(members.values()))
        self.memberships.forget()
        return draft

    # -- the pieces ------------------------------------------------------------------------------

    async def _valid(
        self, course: Course, by: Person, before: StoredCourse | None = None, copied: bool = False
    ) -> Checked:
        if copied and before is not None:
            before = before.model_copy(update={"state": SpaceState.DRAFT})  # nothing is approved
        checked = await self.check(course, by, before)
        if checked.errors:
            first, more = checked.errors[0], len(checked.errors) - 1
            error = InvalidRequest(
                first.message + (f" ({more} more)" if more else ""), first.field or None
            )
            error.details = {"problems": [problem.model_dump() for problem in checked.problems]}
            raise error
        return checked

    def _new(self, checked: Checked, by: Person) -> StoredCourse:
        now = time.time()
        return StoredCourse(
            course=checked.course,
            pinned=checked.pinned,
            created_by=by.name,
            created_at=now,
            changed_at=now,
        )

    def _member(self, stored: StoredCourse, person: str, by: Person) -> CourseMember:
        return CourseMember(
            course=stored.name,
            person=person,
            role=Role.INSTRUCTOR,
            added_by=by.name,
            added_at=stored.created_at,
        )

    async def _answered(
        self, stored: StoredCourse, state: SpaceState, by: Person, answer: str, **values: Any
    ) -> StoredCourse:
        return await self._save(
            stored,
            state=state,
            answer=answer,
            answered_by=by.name,
            answered_at=time.time(),
            **values,
        )

    async def _save(self, stored: StoredCourse, **values: Any) -> StoredCourse:
        saved = await self.store.courses.save(
            stored.model_copy(update={"changed_at": time.time(), **values})
        )
        self.memberships.forget()
        return saved

    def _demand(self, stored: StoredCourse, number: int, *states: SpaceState) -> None:
        if stored.number != number:
            raise Conflict("Another user has changed this course. Reload it and try again.")
        if stored.state not in states:
            raise Conflict(
                f"The course '{stored.name}' is {stored.state}, so this action is not possible."
            )


def moved(course: Course, begins: date) -> dict[str, Any]:
    """Return the dates of ``course``, moved to begin on another day, as JSON values."""
    days = (begins - course.begins).days
    weeks = timedelta(weeks=round(days / _WEEK))
    try:
        ends = course.ends + timedelta(days=days)
        single = [(meeting, meeting.date + weeks) for meeting in course.single]
    except OverflowError:
        raise InvalidRequest(f"{begins} is too far in the future.", "begins") from None
    return {
        "begins": begins.isoformat(),
        "ends": ends.isoformat(),
        "without": [],
        "single": [
            meeting.model_dump(mode="json") | {"date": min(max(day, begins), ends).isoformat()}
            for meeting, day in single
        ],
    }
