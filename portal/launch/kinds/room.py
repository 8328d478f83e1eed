"""A course's room: notebooks that its members share."""

from __future__ import annotations

from ...models.course.course import Course
from .jupyterlab import JupyterLab


class Room(JupyterLab):
    """Room of a course, run by somebody of its staff. Everyone in the course sees its folder, so
    that is not the one of the owner's own work; no course's name has a dot."""

    name = "room"
    title = "a course's room"
    prefix = "room"
    about = "The course's room, which its members share."
    offered = welcomes = job_kernels = graded = False
    starters = ""

    @property
    def folder(self) -> str:
        return f"{self.space_name}.room"

    @classmethod
    def not_offered(cls, course: Course) -> str:
        if course.together:
            return ""
        return f"The course '{course.title}' has no room. Its instructor can allow one."
