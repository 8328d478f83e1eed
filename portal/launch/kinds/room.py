"""A course's room: notebooks that its members share."""

from __future__ import annotations

from ...models.course.course import KeptCourse, Role
from .course import CourseSession


class Room(CourseSession):
    """A session of somebody of the course's staff."""

    name = "room"
    prefix = "room"
    about = "The course's room: its members are in it together."
    graded = False
    starters = ""

    @property
    def folder(self) -> str:
        """Everyone in the course sees it: it is not that of its owner's own work, and no course's
        name has a dot."""
        return f"{self.course}.room"

    @classmethod
    def closed(cls, kept: KeptCourse, role: Role, now: float) -> str:
        reason = super().closed(kept, role, now)
        if not reason and not kept.course.together:
            return (
                f"The course '{kept.course.title}' has no room for working together: its "
                "instructor may allow one."
            )
        return reason
