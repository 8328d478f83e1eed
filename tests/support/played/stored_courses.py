"""Courses as their instructors write them, and as the portal stores them."""

from __future__ import annotations

from typing import Any

from portal.models.course.course import Course, CourseState, KeptCourse


def a_course(name: str = "deep", **values: Any) -> Course:
    """Return a course of the winter of 2026 that only has what each course must have."""
    usual = {
        "title": "Deep Learning",
        "environment": "lab",
        "begins": "2026-10-01",
        "ends": "2027-02-01",
    }
    return Course.model_validate({"name": name, **usual, **values})


def stored(course: Course, **values: Any) -> KeptCourse:
    """Return an approved course, as the database has it."""
    usual = {
        "state": CourseState.APPROVED,
        "created_by": "barbara",
        "created_at": 0,
        "changed_at": 0,
    }
    return KeptCourse(course=course, **{**usual, **values})
