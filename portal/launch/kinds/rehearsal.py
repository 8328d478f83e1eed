"""A rehearsal of a course's start: a session whose home is thrown away."""

from __future__ import annotations

from .course import CourseSession


class Rehearsal(CourseSession):
    """Rehearsal, started by the service for everyone, from the course's page."""

    name = "rehearsal"
    title = "a rehearsal of a course"
    prefix = "rehearsal"
    about = "A rehearsal: files that you create in it are deleted."
    throwaway = True
    early = True
    graded = False
    job_kernels = False
    starters = "service"
