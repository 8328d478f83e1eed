"""Courses and their members. Written by the service only; the Hub reads them."""

from __future__ import annotations

from sqlalchemy import update

from portal.models.course.course import CourseMember, StoredCourse

from ..spaces import SpaceMemberTable, SpaceTable
from .tables import course_members, courses


class MemberTable(SpaceMemberTable[CourseMember]):
    """The table of courses' members. Every method raises StoreUnavailable."""

    table, model, noun = course_members, CourseMember, "course"

    async def join(self, course: str, person: str, at: float) -> bool:
        """Record that a member joined the course themselves; return True if that is new."""
        statement = (
            update(course_members)
            .where(self.own(course, person) & course_members.c.joined_at.is_(None))
            .values(joined_at=at)
            .returning(course_members.c.person)
        )
        row = await self._database.run(lambda to: to.execute(statement).first(), write=True)
        return row is not None


class CourseTable(SpaceTable[StoredCourse]):
    """The table of courses. Every method raises StoreUnavailable."""

    table, model, noun, member_table = courses, StoredCourse, "course", MemberTable
    members: MemberTable
