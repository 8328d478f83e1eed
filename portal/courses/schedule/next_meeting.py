"""The next meeting of a course, in words. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from portal.courses.definition.calendar import meetings
from portal.models.course.course import Course
from portal.models.words import duration

AHEAD = 14 * 86400  # seconds in which the next meeting is looked for
_SOON = 3600  # seconds before which minutes are counted


def next_meeting(course: Course, now: float) -> str:
    """Return when the course meets next, in its own time zone; "" if nothing is near.

    An example is "The meeting runs until 11:30.".
    """
    following = meetings(course, now, now + AHEAD)
    if not following:
        return ""
    zone = ZoneInfo(course.timezone)
    begins = datetime.fromtimestamp(following[0].begins, zone)
    if following[0].begins <= now:
        ends = datetime.fromtimestamp(following[0].ends, zone)
        return f"The meeting runs until {ends:%H:%M}."
    left = following[0].begins - now
    if left < _SOON:
        return f"The course meets in {duration(60 * max(1, round(left / 60)))}, at {begins:%H:%M}."
    if begins.date() == datetime.fromtimestamp(now, zone).date():
        return f"The course meets today at {begins:%H:%M}."
    if begins.date() == datetime.fromtimestamp(now, zone).date() + timedelta(days=1):
        return f"The course meets tomorrow at {begins:%H:%M}."
    return f"The course meets on {begins:%A}, {begins.day} {begins:%B} at {begins:%H:%M}."
