"""Folders collected from the members of courses, and who handed in. Written by the service."""

from __future__ import annotations

from sqlalchemy import select, update

from portal.errors import NotFound
from portal.models.course.live import Collect, Collected

from ..engine.columns import LARGEST_ID
from .rows import CourseRows
from .tables import course_collected, course_collects


class CollectTable(CourseRows[Collect]):
    """The tables of collections and of hand-ins. Every method raises StoreUnavailable."""

    table, model = course_collects, Collect
    most = 200

    async def get(self, course: str, id: int) -> Collect:
        """Return a collection of a course. Raises NotFound."""
        query = select(course_collects).where(
            course_collects.c.id == min(id, LARGEST_ID), course_collects.c.course == course
        )
        collect = await self._first(query)
        if collect is None:
            raise NotFound(f"This course has no collection {id}.")
        return collect

    async def open(self) -> list[Collect]:
        """Return the open collections of all courses, oldest first."""
        query = select(course_collects).where(course_collects.c.closed_at.is_(None))
        return await self._models(query.order_by(course_collects.c.id))

    async def close(self, course: str, id: int, at: float) -> Collect:
        """Close a collection at ``at``; a closed one stays as it is. Raises NotFound."""
        statement = update(course_collects).where(
            course_collects.c.id == min(id, LARGEST_ID),
            course_collects.c.course == course,
            course_collects.c.closed_at.is_(None),
        )
        await self._write(statement.values(closed_at=at))
        return await self.get(course, id)

    async def give(self, given: Collected) -> None:
        """Save what somebody handed in, in the place of an earlier hand-in."""
        await self._write(self._database.upsert(course_collected), given.model_dump())

    async def given(self, ids: list[int]) -> list[Collected]:
        """Return the hand-ins for some collections, ordered by collection and name."""
        table = course_collected
        query = select(table).where(table.c.collect_id.in_(ids))
        rows = await self._rows_of(query.order_by(table.c.collect_id, table.c.person))
        return [Collected.model_validate(row._asdict()) for row in rows]
