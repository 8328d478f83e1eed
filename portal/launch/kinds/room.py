"""A course's room: notebooks that its members share."""

from __future__ import annotations

from ...models.course.course import KeptCourse, Role
from .course import CourseSession


class Room(CourseSession):
    """Room of a course, run by somebody of its staff."""

    name = "room"
    title = "a course's room"
    prefix = "room"
    about = "The course's room, which its members share."
    graded = False
    job_kernels = False
    starters = ""

    @property
    def folder(self) -> str:
        """Name of the folder that is its home. Everyone in the course sees it, so it is not that
        of the owner's own work; no course's name has a dot."""
        return f"{self.course}.room"

    @classmethod
    def closed(cls, kept: KeptCourse, role: Role, now: float) -> str:
        reason = super().closed(kept, role, now)
        if not reason and not kept.course.together:
            return f"The course '{kept.course.title}' has no room. Its instructor can allow one."
        return reason
