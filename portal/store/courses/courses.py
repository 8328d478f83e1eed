"""Courses and their members. Written by the service only; the Hub reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, select, update

from portal.errors import Conflict, NotFound
from portal.models.course.course import Course, CourseMember, StoredCourse
from portal.models.space import SpaceState

from ..engine.rows import ModelTable
from .tables import course_members, courses

_AGAIN = "Another user has changed this course in the meantime. Reload it, then save."


class CourseTable(ModelTable[StoredCourse]):
    """The table of courses. Every method raises StoreUnavailable."""

    table, model = courses, StoredCourse

    async def add_course(self, stored: StoredCourse, members: Sequence[CourseMember] = ()) -> None:
        """Insert a new course with its first members. Raises Conflict if the name is taken."""
        statement = self._database.insert(courses).values(_values(stored)).on_conflict_do_nothing()

        def keep(to: Connection) -> bool:
            if not to.execute(statement.returning(courses.c.name)).first():
                return False
            if members:
                to.execute(course_members.insert(), [member.model_dump() for member in members])
            return True

        if not await self._database.run(keep, write=True):
            raise Conflict(f"A course '{stored.name}' already exists. Choose another name.")

    async def save(self, stored: StoredCourse) -> StoredCourse:
        """Replace a course by ``stored`` and increment its number. Raises Conflict if
        ``stored.number`` is not the newest, NotFound."""
        new = stored.model_copy(update={"number": stored.number + 1})
        this = (courses.c.name == stored.name) & (courses.c.number == stored.number)
        statement = update(courses).where(this).values(_values(new)).returning(courses)
        saved = await self._first(statement, write=True)
        if saved is None:
            await self.get(stored.name)
            raise Conflict(_AGAIN)
        return saved

    async def get(self, name: str) -> StoredCourse:
        """Return a course. Raises NotFound."""
        stored = await self._first(select(courses).where(courses.c.name == name))
        if stored is None:
            raise NotFound(f"There is no course '{name}'.")
        return stored

    async def all(self, *states: SpaceState) -> list[StoredCourse]:
        """Return the courses in one of ``states`` (in any if none is given), ordered by name."""
        query = select(courses).order_by(courses.c.name)
        if states:
            query = query.where(courses.c.state.in_([str(state) for state in states]))
        return await self._models(query)

    def _made(self, row: Row[Any]) -> StoredCourse:
        values = row._asdict()
        del values["name"]
        return StoredCourse(**{**values, "course": Course.model_validate(values["course"])})


class MemberTable(ModelTable[CourseMember]):
    """The table of courses' members. Every method raises StoreUnavailable."""

    table, model = course_members, CourseMember

    async def of_space(self, course: str) -> list[CourseMember]:
        """Return the members of a course, ordered by name."""
        query = select(course_members).where(course_members.c.course == course)
        return await self._models(query.order_by(course_members.c.person))

    async def of_person(self, person: str) -> list[CourseMember]:
        """Return a person's memberships in all courses, ordered by course."""
        query = select(course_members).where(course_members.c.person == person)
        return await self._models(query.order_by(course_members.c.course))

    async def put(self, members: Sequence[CourseMember]) -> None:
        """Insert members, or update those who are in the course already."""
        statement = self._database.upsert(course_members, "role", "source", "added_by")
        rows = [member.model_dump() for member in members]
        if rows:
            await self._write(statement, rows)

    async def join(self, course: str, person: str, at: float) -> bool:
        """Record that a member joined the course themselves; return True if that is new."""
        this = (course_members.c.course == course) & (course_members.c.person == person)
        statement = (
            update(course_members)
            .where(this & course_members.c.joined_at.is_(None))
            .values(joined_at=at)
            .returning(course_members.c.person)
        )
        row = await self._database.run(lambda to: to.execute(statement).first(), write=True)
        return row is not None

    async def remove(self, course: str, people: Sequence[str]) -> None:
        """Remove people from a course; those who are not in it are ignored."""

        def take(to: Connection) -> None:
            for person in people:
                this = (course_members.c.course == course) & (course_members.c.person == person)
                to.execute(delete(course_members).where(this))

        await self._database.run(take, write=True)


def _values(stored: StoredCourse) -> dict[str, Any]:
    values = stored.model_dump(mode="json")
    return {"name": stored.name, **values}
