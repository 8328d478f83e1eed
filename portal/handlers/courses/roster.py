"""``api/v1/courses/{course}/roster``: members of a course."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, StringConstraints

from portal.courses.roster.enrolment import Enrolled
from portal.models import Frozen
from portal.models.course.audit import CourseAudit
from portal.models.course.course import CourseMember, CourseRole
from portal.models.scope import COURSES_MANAGE
from portal.models.space import Login, Role
from portal.work.course.parts import CourseParts

from ..base.csv import MEDIA, CsvEndpoint
from ..base.endpoint import Operation, Query
from .access import INSTRUCTORS, CourseAction


class Roster(Frozen):
    """Members of a course, by name.

    ``group`` is the directory's, whose people are copied; if that failed, ``group_error`` says
    why.
    """

    items: tuple[CourseMember, ...]
    group: str
    group_error: str


class RosterText(Frozen):
    """Pasted list, or the text of a CSV file.

    ``replace``: members with this role who are not on the list leave the course, if every line of
    it could be used.
    """

    text: Annotated[str, StringConstraints(max_length=900_000)]
    role: CourseRole = Role.STUDENT
    replace: bool = False


class PersonQuery(Query):
    """Person who leaves."""

    person: Annotated[Login, Field(description="User name of the member.")]


class CourseRoster(CourseAction):
    """Roster of a course."""

    path = "courses/{course}/roster"
    changers = INSTRUCTORS

    @Operation("The members of a course.")
    async def on_get(self, course: str) -> Roster:
        """Return it to its staff and to admins."""
        return Roster(
            items=tuple(await self.parts.store.members.of_space(course)),
            group=self.stored.course.roster_group,
            group_error=self.parts_for(CourseParts).course_service.enrolment.troubles.get(
                course, ""
            ),
        )

    @Operation("Add members to a course.", body=RosterText, errors=(409,))
    async def on_post(self, course: str) -> Enrolled:
        """Report names that the directory does not know, and leave them out."""
        body: RosterText = self.body
        async with self.audited(CourseAudit.ENROL, f"course {course}") as line:
            done = await self.parts_for(CourseParts).course_service.enrolment.enrol(
                self.stored,
                body.text,
                body.role,
                self.person.name,
                replace=body.replace,
                trusted=self.person.may(COURSES_MANAGE),
            )
            line.detail = (
                f"Added as {body.role}: {_words(done.added)}. Removed: {_words(done.removed)}."
            )
        return done

    @Operation("Remove a member from a course.", query=PersonQuery, errors=(409,))
    async def on_delete(self, course: str) -> None:
        """End their session of the course; their work stays in their home."""
        person = self.query.person
        async with self.audited(
            CourseAudit.DISMISS, f"course {course}", owner=person, detail=person
        ):
            await self.parts_for(CourseParts).course_service.enrolment.dismiss(
                self.stored, [person]
            )


class CourseRosterCsv(CourseAction, CsvEndpoint):
    """Roster of a course, as a file."""

    path = "courses/{course}/roster.csv"
    columns = ("person", "role", "source", "added_by", "added_at")
    times = frozenset({"added_at"})

    @Operation("The members of a course, as CSV.", media=MEDIA)
    async def rows(self) -> Sequence[CourseMember]:
        return await self.parts.store.members.of_space(self.stored.name)

    async def on_get(self, course: str) -> None:  # type: ignore[override]
        """Return a header and a line for each person."""
        await self.send(f"{course}-roster.csv")


def _words(names: Sequence[str]) -> str:
    """Return names for an entry of the audit log."""
    if len(names) > 20:
        return f"{len(names)} users"
    return ", ".join(names) or "none"


ENDPOINTS = (CourseRoster, CourseRosterCsv)
