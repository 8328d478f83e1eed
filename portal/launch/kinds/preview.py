"""A preview of a course: its staff see what a student would."""

from __future__ import annotations

from .course import CourseSession


class Preview(CourseSession):
    """Preview with a throwaway home: it begins as every student does."""

    name = "preview"
    title = "a preview of a course"
    prefix = "preview"
    about = "A preview of what students of the course see."
    throwaway = True
    graded = False
    job_kernels = False
    starters = ""
