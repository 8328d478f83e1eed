"""Courses as their instructors write them, and as the portal stores them."""

from __future__ import annotations

from typing import Any

from portal.models.course.course import Course, StoredCourse
from portal.models.space import SpaceState


def a_course(name: str = "deep", **values: Any) -> Course:
    """Return a course of the winter of 2026 that only has what each course must have."""
    usual = {
        "title": "Deep Learning",
        "environment": "lab",
        "begins": "2026-10-01",
        "ends": "2027-02-01",
    }
    return Course.model_validate({"name": name, **usual, **values})


def stored(course: Course, **values: Any) -> StoredCourse:
    """Return an approved course, as the database has it."""
    usual = {
        "state": SpaceState.APPROVED,
        "created_by": "barbara",
        "created_at": 0,
        "changed_at": 0,
    }
    return StoredCourse(course=course, **{**usual, **values})
