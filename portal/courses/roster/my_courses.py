"""A person's courses for the Sessions and launch pages, the one that meets next first."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime
from zoneinfo import ZoneInfo

from portal.errors import PortalError
from portal.launch.kinds.closed import closed
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.models import Frozen
from portal.models.space import STAFF, SpaceState
from portal.spaces.membership_cache import Membership, MembershipCache

from ..definition.calendar import meetings
from ..schedule.next_meeting import AHEAD, next_meeting

_PATIENCE = 0.3  # seconds that a page waits for the database


class MyCourse(Frozen):
    """A person's course.

    ``meeting`` says when it meets next; ``closed`` why it has no session now; ``staff`` is True if
    the person is an instructor or assistant.
    """

    name: str
    title: str
    server: str
    meeting: str = ""
    closed: str = ""
    staff: bool = False


def my_courses(memberships: Iterable[Membership], now: float) -> tuple[MyCourse, ...]:
    """Return the courses that have sessions now (Unix seconds) or later, the next meeting first."""
    rows = []
    for membership in memberships:
        course = membership.stored.course
        reason = closed(JupyterLab, membership.stored, membership.role, now)
        today = datetime.fromtimestamp(now, ZoneInfo(course.timezone)).date()
        if membership.stored.state is not SpaceState.APPROVED or today > course.ends:
            continue
        following = meetings(course, now, now + AHEAD)
        begins = following[0].begins if following else float("inf")
        my_course = MyCourse(
            name=course.name,
            title=course.title,
            server=course.server,
            meeting="" if reason else next_meeting(course, now),
            closed=reason,
            staff=membership.role in STAFF,
        )
        rows.append((bool(reason), begins, course.name, my_course))
    return tuple(my_course for *_, my_course in sorted(rows, key=lambda row: row[:3]))


async def courses_of(memberships: MembershipCache, name: str) -> tuple[MyCourse, ...]:
    """Return the courses for a page: those known before, if the database does not answer within
    a moment."""
    memberships = memberships.of_type("course")
    try:
        own_memberships: Iterable[Membership] = (
            await memberships.mine(name, patience=_PATIENCE)
        ).values()
    except (PortalError, TimeoutError):  # the store says so in the log
        own_memberships = memberships.known_to(name)
    return my_courses(own_memberships, time.time())
