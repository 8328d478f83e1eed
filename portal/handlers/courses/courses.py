"""``api/v1/courses``: list, creation and editing of courses."""

from __future__ import annotations

import time
from datetime import date
from typing import Annotated, Any

from pydantic import Field, ValidationError

from portal.courses.definition.rules import Checked
from portal.errors import NotAllowed, PortalError
from portal.models import Frozen
from portal.models.catalog.environment import Environment
from portal.models.course.audit import CourseAudit
from portal.models.course.course import Course, CourseName, StoredCourse
from portal.models.problem import FieldProblem
from portal.models.scope import COURSES_MANAGE
from portal.models.space import STAFF, Login, Role, SpaceState
from portal.spaces.membership_cache import Membership
from portal.work.course.parts import CourseParts

from ..base.action import Action
from ..base.endpoint import Operation
from ..base.paging import Page, PageQuery, page_of
from .access import INSTRUCTORS, CourseAction

Number = Annotated[int, Field(ge=1, le=2**31 - 1)]


class CourseItem(Frozen):
    """Course in a list. ``role``: of the asker in it; null for an admin who is not."""

    name: str
    title: str
    state: SpaceState
    runs: bool
    role: Role | None
    begins: date
    ends: date
    created_by: str
    changed_at: float
    answer: str


class PinnedEnvironment(Frozen):
    """Environment of the course's sessions, until it is changed."""

    title: str
    image: str
    digest: str
    version: int | None


class CourseDetail(Frozen):
    """Course as its staff see it. ``number`` counts its edits: send back the one you saw.

    ``may``: what the asker can do with it now. ``problems``: what would be in the way of saving it
    as it is, hints included.
    """

    course: Course
    state: SpaceState
    runs: bool
    number: int
    role: Role | None
    pinned: PinnedEnvironment | None
    created_by: str
    created_at: float
    changed_at: float
    answer: str
    answered_by: str
    answered_at: float | None
    archived_at: float | None
    may: tuple[str, ...]
    problems: tuple[FieldProblem, ...] = ()


class CourseQuery(PageQuery):
    """Filters and page of the courses."""

    state: Annotated[SpaceState | None, Field(description="Only courses in this state.")] = None
    mine: Annotated[
        bool,
        Field(description="Only your own courses. Otherwise, users who manage courses get all."),
    ] = False


class NewCourse(Frozen):
    """New course. ``instructor``: whose it is; null: yours. Only admins name others."""

    course: Course
    instructor: Login | None = None


class CourseEdit(Frozen):
    """Edited course. ``number``: of the state that was edited."""

    course: Course
    number: Number


class CourseText(Frozen):
    """Course to check: whatever is in the form. ``name``: the one that is edited, if any."""

    course: dict[str, Any]
    name: CourseName | None = None


class CourseValidation(Frozen):
    """Problems of a course, hints included. ``meetings``: how many there are in all.

    ``version`` and ``environment_title`` are what it would be pinned to.
    """

    problems: tuple[FieldProblem, ...]
    version: int | None = None
    environment_title: str = ""
    meetings: int = 0


class CourseList(Action):
    """Courses that one is in, and for admins all of them."""

    path = "courses"

    async def admit(self) -> None:
        """Deny the creation of a course to those who may not."""
        if self.request.method == "POST":
            await demand_creation(self)

    @Operation("Your courses.", query=CourseQuery)
    async def on_get(self) -> Page[CourseItem]:
        """Return courses of all states to their staff, approved ones to students.

        Holders of the scope for it get everyone's, with the requests.
        """
        own_memberships = await self.parts.memberships.of_type("course").mine(self.person.name)
        memberships = {
            name: entry
            for name, entry in own_memberships.items()
            if entry.role in STAFF or entry.stored.state is SpaceState.APPROVED
        }
        courses = {name: entry.stored for name, entry in memberships.items()}
        if self.person.may(COURSES_MANAGE) and not self.query.mine:
            courses = {entry.name: entry for entry in await self.parts.store.courses.all()}
        state = self.query.state
        chosen = [entry for _, entry in sorted(courses.items()) if state in (None, entry.state)]
        return page_of(
            [course_item(entry, own_memberships.get(entry.name)) for entry in chosen], self.query
        )

    @Operation("Create a course.", body=NewCourse, status=201, errors=(409,))
    async def on_post(self) -> CourseDetail:
        """Create a draft: submit it when it is ready."""
        draft: NewCourse = self.body
        async with self.audited(CourseAudit.CREATE_COURSE, f"course {draft.course.name}"):
            stored = await self.parts_for(CourseParts).course_service.create(
                draft.course, self.person, draft.instructor or ""
            )
        is_instructor = draft.instructor in (None, self.person.name)
        return await detail(self, stored, Role.INSTRUCTOR if is_instructor else None)


class CourseValidate(Action):
    """Check of a course; changes nothing."""

    path = "courses/validate"

    @Operation("Check a course.", body=CourseText)
    async def on_post(self) -> CourseValidation:
        """Return what is wrong as the answer, not as an error.

        It is compared with the course of that ``name``, if you teach that.
        """
        body: CourseText = self.body
        before = None
        if body.name is not None:
            before = await self._before(body.name)
        else:
            await demand_creation(self)
        try:
            course = Course.model_validate(body.course)
        except ValidationError as error:
            return CourseValidation(problems=tuple(problems_of(error)))
        checked = await self.parts_for(CourseParts).course_service.check(
            course, self.person, before
        )
        return CourseValidation(
            problems=checked.problems,
            version=checked.course.version,
            environment_title=checked.pinned.title if checked.pinned else "",
            meetings=checked.meetings,
        )

    async def _before(self, name: str) -> StoredCourse:
        membership = (await self.parts.memberships.of_type("course").mine(self.person.name)).get(
            name
        )
        if membership is not None and membership.role in STAFF:
            return membership.stored
        if self.person.may(COURSES_MANAGE):
            return await self.parts.store.courses.get(name)
        await self.deny(
            f"course {name}", NotAllowed(f"There is no course '{name}' that you can access.")
        )


class OneCourse(CourseAction):
    """Course by its name."""

    path = "courses/{course}"
    changers = INSTRUCTORS

    @Operation("A course.")
    async def on_get(self, course: str) -> CourseDetail:
        """Return it to its staff and to admins, as it is now, even if a command has changed it."""
        stored = await self.parts.memberships.of_type("course").space(course, fresh=True)
        return await detail(self, stored, self.role, checked=True)

    @Operation("Change a course.", body=CourseEdit, errors=(409,))
    async def on_put(self, course: str) -> CourseDetail:
        """Change it as one of its instructors or an admin.

        After its approval, more than was approved takes an admin, unless courses need no approval
        here.
        """
        async with self.audited(CourseAudit.EDIT_COURSE, f"course {course}"):
            stored = await self.parts_for(CourseParts).course_service.edit(
                self.stored, self.body.course, self.body.number, self.person
            )
        return await detail(self, stored, self.role, checked=True)


async def demand_creation(handler: Action) -> None:
    """Raise NotAllowed, with an entry in the audit log, for those who may not make courses."""
    try:
        handler.parts_for(CourseParts).course_service.demand_creation(handler.person)
    except NotAllowed as error:
        await handler.deny("courses", error)


def course_item(stored: StoredCourse, membership: Membership | None) -> CourseItem:
    """Return the course as lists show it."""
    course = stored.course
    return CourseItem(
        name=stored.name,
        title=course.title,
        state=stored.state,
        runs=stored.runs(time.time()),
        role=membership.role if membership else None,
        begins=course.begins,
        ends=course.ends,
        created_by=stored.created_by,
        changed_at=stored.changed_at,
        answer=stored.answer,
    )


async def detail(
    handler: Action, stored: StoredCourse, role: Role | None, *, checked: bool = False
) -> CourseDetail:
    """Return the course as its staff see it. ``checked``: with what is wrong with it now."""
    result: Checked | None = None
    if checked and stored.state is not SpaceState.ARCHIVED:
        try:
            result = await handler.parts_for(CourseParts).course_service.check(
                stored.course, handler.person, stored
            )
        except PortalError as error:
            handler.parts.log.warning("The course %s could not be checked: %s", stored.name, error)
    return CourseDetail(
        course=stored.course,
        state=stored.state,
        runs=stored.runs(time.time()),
        number=stored.number,
        role=role,
        pinned=_pinned(stored.pinned, stored.course.version),
        created_by=stored.created_by,
        created_at=stored.created_at,
        changed_at=stored.changed_at,
        answer=stored.answer,
        answered_by=stored.answered_by,
        answered_at=stored.answered_at,
        archived_at=stored.archived_at,
        may=may_do(stored, role, handler.person.may(COURSES_MANAGE)),
        problems=result.problems if result else (),
    )


def may_do(stored: StoredCourse, role: Role | None, manages: bool) -> tuple[str, ...]:
    """Return the actions that this person can take now."""
    teaches, state = role is Role.INSTRUCTOR or manages, stored.state
    actions = {
        "edit": teaches and state is not SpaceState.ARCHIVED,
        "submit": teaches and state in (SpaceState.DRAFT, SpaceState.REFUSED),
        "approve": manages and state in (SpaceState.DRAFT, SpaceState.REQUESTED),
        "refuse": manages and state is SpaceState.REQUESTED,
        "archive": teaches and state is not SpaceState.ARCHIVED,
        "copy": teaches,
        "roster": teaches and state is not SpaceState.ARCHIVED,
    }
    return tuple(name for name, may in actions.items() if may)


def problems_of(error: ValidationError) -> list[FieldProblem]:
    """Return pydantic's findings, each with the name of its field."""
    problems = []
    for finding in error.errors(include_url=False, include_context=False, include_input=False):
        message = str(finding["msg"]).removeprefix("Value error, ")
        field = ".".join(str(step) for step in finding["loc"])[:100]
        if finding["type"] == "extra_forbidden":
            message = "unknown field; remove it"
        if not field and "last day" in message:
            field = "ends"
        problems.append(FieldProblem(field=field, message=f"{message[:1].upper()}{message[1:]}."))
    return problems[:100]


def _pinned(environment: Environment | None, version: int | None) -> PinnedEnvironment | None:
    if environment is None:
        return None
    return PinnedEnvironment(
        title=environment.title,
        image=environment.image or environment.source or "",
        digest=environment.digest or "",
        version=version,
    )


ENDPOINTS = (
    CourseList,
    CourseValidate,  # before {course}: 'validate' is none
    OneCourse,
)
