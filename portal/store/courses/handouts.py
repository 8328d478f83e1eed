"""Handouts of courses, revision by revision. Written by the service only."""

from __future__ import annotations

from sqlalchemy import func, select

from portal.models.course.live import HandoutRevision

from .rows import CourseRows
from .tables import course_handouts


class HandoutTable(CourseRows[HandoutRevision]):
    """The table of revisions. Every method raises StoreUnavailable."""

    table, model = course_handouts, HandoutRevision

    async def newest(self) -> dict[str, str]:
        """Return the newest revision of each course."""
        last = select(func.max(course_handouts.c.id)).group_by(course_handouts.c.course)
        query = select(course_handouts.c.course, course_handouts.c.revision)
        rows = await self._rows_of(query.where(course_handouts.c.id.in_(last)))
        return {str(course): str(revision) for course, revision in rows}
