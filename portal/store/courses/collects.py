"""Folders collected from the members of courses, and who handed in. Written by the service."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, select, update

from portal.errors import NotFound
from portal.models.course.live import Collect, Collected

from ..engine.database import Database
from .tables import course_collected, course_collects

_MOST = 200  # of one course
_LARGEST_ID = 2**63 - 1


class CollectTable:
    """The tables of collections and of hand-ins. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, collect: Collect) -> Collect:
        """Insert a collection; return it with its id."""
        values = collect.model_dump(exclude={"id"})
        statement = course_collects.insert().values(values).returning(course_collects)
        row = await self._database.run(lambda to: to.execute(statement).one(), write=True)
        return _collect(row)

    async def get(self, course: str, id: int) -> Collect:
        """Return a collection of a course. Raises NotFound."""
        query = select(course_collects).where(
            course_collects.c.id == min(id, _LARGEST_ID), course_collects.c.course == course
        )
        row = await self._database.run(lambda at: at.execute(query).first())
        if row is None:
            raise NotFound(f"This course has no collection {id}.")
        return _collect(row)

    async def of(self, course: str) -> list[Collect]:
        """Return a course's collections, newest first."""
        query = select(course_collects).where(course_collects.c.course == course)
        query = query.order_by(course_collects.c.id.desc()).limit(_MOST)
        return await self._database.run(lambda at: [_collect(row) for row in at.execute(query)])

    async def open(self) -> list[Collect]:
        """Return the open collections of all courses, oldest first."""
        query = select(course_collects).where(course_collects.c.closed_at.is_(None))
        query = query.order_by(course_collects.c.id)
        return await self._database.run(lambda at: [_collect(row) for row in at.execute(query)])

    async def close(self, course: str, id: int, at: float) -> Collect:
        """Close a collection at ``at``; a closed one stays as it is. Raises NotFound."""
        statement = update(course_collects).where(
            course_collects.c.id == min(id, _LARGEST_ID),
            course_collects.c.course == course,
            course_collects.c.closed_at.is_(None),
        )
        statement = statement.values(closed_at=at)
        await self._database.run(lambda to: to.execute(statement), write=True)
        return await self.get(course, id)

    async def give(self, given: Collected) -> None:
        """Save what somebody handed in, in the place of an earlier hand-in."""
        values = given.model_dump()
        statement = self._database.upsert(course_collected)
        await self._database.run(lambda to: to.execute(statement, values), write=True)

    async def given(self, ids: list[int]) -> list[Collected]:
        """Return the hand-ins for some collections, ordered by collection and name."""
        table = course_collected
        query = select(table).where(table.c.collect_id.in_(ids))
        query = query.order_by(table.c.collect_id, table.c.person)
        rows = await self._database.run(lambda at: list(at.execute(query)))
        return [Collected.model_validate(row._asdict()) for row in rows]


def _collect(row: Row[Any]) -> Collect:
    return Collect.model_validate(row._asdict())
