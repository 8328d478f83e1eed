"""Common base of the tables that hold numbered rows of courses."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from sqlalchemy import select

from portal.models import Frozen

from ..engine.rows import ModelTable

T = TypeVar("T", bound=Frozen)


class CourseRows(ModelTable[T]):
    """Base class of these tables. Every method raises StoreUnavailable."""

    most: ClassVar[int] = 100  # rows that are read of one course

    async def add_row(self, new: T) -> T:
        """Insert a row; return it with its id."""
        return await self._insert(new.model_dump(exclude={"id"}))

    async def of_course(self, course: str) -> list[T]:
        """Return the rows of a course, newest first."""
        table = self.table
        query = select(table).where(table.c.course == course).order_by(table.c.id.desc())
        return await self._models(query.limit(self.most))
