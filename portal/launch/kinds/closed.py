"""Courses that have no sessions now. Pure."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from ...models.course.course import STAFF, CourseState, KeptCourse, Role
from ..course import day
from .kind import Kind


def closed(kind: type[Kind], kept: KeptCourse, role: Role, now: float) -> str:
    """Return why no session of this kind starts at ``now`` (Unix seconds); "" if one does.

    The staff may try everything out before the course begins.
    """
    course = kept.course
    title = f"The course '{course.title}'"
    if kept.state is CourseState.ARCHIVED:
        return f"{title} is archived and has no more sessions. Your files are still there."
    if kept.state is CourseState.REFUSED:
        return f"{title} was not approved, so it has no sessions."
    if kept.state is not CourseState.APPROVED:
        return f"{title} has no sessions yet: an admin of the portal must approve it first."
    if kept.pinned is None:
        return f"{title} has no environment yet: its instructor must choose one."
    today = datetime.fromtimestamp(now, ZoneInfo(course.timezone)).date()
    if today > course.ends:
        return f"{title} ended on {day(course.ends)}. Your files are still there."
    if today < course.begins and not (role in STAFF or kind.early):
        return f"{title} begins on {day(course.begins)}."
    return kind.not_offered(course)
