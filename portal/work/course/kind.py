"""Kinds that only courses have: a rehearsal of a start, the staff's preview, the shared room."""

from __future__ import annotations

from portal.launch.kinds.jupyterlab import JupyterLab
from portal.models.space import Space


class Rehearsal(JupyterLab):
    """Rehearsal, started by the service for everyone, from the course's page."""

    name = "rehearsal"
    title = "a rehearsal of a course"
    prefix = "rehearsal"
    about = "A rehearsal: files that you create in it are deleted."
    offered = welcomes = job_kernels = graded = False
    throwaway = early = True
    starters = "service"


class Preview(JupyterLab):
    """Preview with a throwaway home: it begins as every student does."""

    name = "preview"
    title = "a preview of a course"
    prefix = "preview"
    about = "A preview of what students of the course see."
    offered = welcomes = job_kernels = graded = False
    throwaway = True
    starters = ""


class Room(JupyterLab):
    """Room of a course, run by somebody of its staff. Everyone in the course sees its folder, so
    that is not the one of the owner's own work; no course's name has a dot."""

    name = "room"
    title = "a course's room"
    prefix = "room"
    about = "The course's room, which its members share."
    offered = welcomes = job_kernels = graded = False
    shared = True
    starters = ""

    @property
    def folder(self) -> str:
        return f"{self.space_name}.room"

    @classmethod
    def not_offered(cls, space: Space) -> str:
        if space.together:
            return ""
        if space.no_room:
            return f"The {space.called} has no room: {space.no_room}"
        return f"The {space.called} has no room. Its {space.leader} can allow one."
