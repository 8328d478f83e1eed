"""Handouts of courses, revision by revision. Written by the service only."""

from __future__ import annotations

from sqlalchemy import func, select

from portal.models.course.live import HandoutRevision

from ..engine.database import Database
from .tables import course_handouts

_MOST = 100  # revisions that are read of one course


class HandoutTable:
    """The table of revisions. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, revision: HandoutRevision) -> HandoutRevision:
        """Insert a revision, the newest of its course; return it with its id."""
        values = revision.model_dump(exclude={"id"})
        statement = course_handouts.insert().values(values).returning(course_handouts)
        row = await self._database.run(lambda to: to.execute(statement).one(), write=True)
        return HandoutRevision.model_validate(row._asdict())

    async def of(self, course: str) -> list[HandoutRevision]:
        """Return a course's revisions, newest first."""
        query = select(course_handouts).where(course_handouts.c.course == course)
        query = query.order_by(course_handouts.c.id.desc()).limit(_MOST)
        rows = await self._database.run(lambda at: list(at.execute(query)))
        return [HandoutRevision.model_validate(row._asdict()) for row in rows]

    async def newest(self) -> dict[str, str]:
        """Return the newest revision of each course."""
        last = select(func.max(course_handouts.c.id)).group_by(course_handouts.c.course)
        query = select(course_handouts.c.course, course_handouts.c.revision)
        query = query.where(course_handouts.c.id.in_(last))
        rows = await self._database.run(lambda at: list(at.execute(query)))
        return {str(course): str(revision) for course, revision in rows}
