"""Base class of endpoints for a single course: who may use them."""

from __future__ import annotations

from typing import ClassVar

from portal.models.course.course import StoredCourse
from portal.models.scope import COURSES_MANAGE
from portal.models.space import STAFF, Role

from ..base.space_action import SpaceAction

COURSE = r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?"
EVERYONE = STAFF | {Role.STUDENT}
INSTRUCTORS = frozenset({Role.INSTRUCTOR})


class CourseAction(SpaceAction):
    """Base class below ``courses/{course}``, for its staff and admins unless it says otherwise.
    What lies in students' sessions is never for admins."""

    noun = "course"
    manages = COURSES_MANAGE
    parameters: ClassVar[dict[str, str]] = {"course": COURSE}
    roles: ClassVar[frozenset[Role]] = STAFF

    stored: StoredCourse
