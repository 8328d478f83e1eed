"""Courses of a person, first on the home page and on the launch page: a button for each."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

from jupyterhub.app import JupyterHub

from portal.courses.definition.calendar import meetings
from portal.courses.roster.membership_cache import CourseBook, Membership
from portal.errors import PortalError
from portal.launch.course import server_of
from portal.launch.kinds.course import CourseSession
from portal.models import Frozen
from portal.models.course.course import CourseState

from ..context import Shared
from .next_meeting import AHEAD, next_meeting

_PATIENCE = 0.3  # seconds that a page waits for the database


class MyCourse(Frozen):
    """Course of a person. ``meeting`` says when it meets next; ``closed`` why it has no
    session now."""

    name: str
    title: str
    server: str
    meeting: str = ""
    closed: str = ""


def my_courses(mine: Iterable[Membership], now: float) -> tuple[MyCourse, ...]:
    """Return courses that have sessions now (Unix seconds) or will have, next meeting first."""
    rows = []
    for membership in mine:
        course = membership.kept.course
        reason = CourseSession.closed(membership.kept, membership.role, now)
        today = datetime.fromtimestamp(now, ZoneInfo(course.timezone)).date()
        if membership.kept.state is not CourseState.APPROVED or today > course.ends:
            continue
        following = meetings(course, now, now + AHEAD)
        begins = following[0].begins if following else float("inf")
        shown = MyCourse(
            name=course.name,
            title=course.title,
            server=course.server,
            meeting="" if reason else next_meeting(course, now),
            closed=reason,
        )
        rows.append((bool(reason), begins, course.name, shown))
    return tuple(shown for *_, shown in sorted(rows, key=lambda row: row[:3]))


async def courses_of(book: CourseBook, name: str) -> tuple[MyCourse, ...]:
    """Return the courses for a page: those known before, if the database does not answer within
    a moment."""
    try:
        mine: Iterable[Membership] = (await book.mine(name, patience=_PATIENCE)).values()
    except (PortalError, TimeoutError):  # the store says so in the log
        mine = book.known_to(name)
    return my_courses(mine, time.time())


async def _of(person: Any) -> tuple[MyCourse, ...]:
    return await courses_of(Shared.of(JupyterHub.instance().config).book, person.name)


# Functions for the Hub's page templates, as the variable `portal_courses`: the courses of a
# user of the Hub (Jinja awaits them), and whether a server's name is that of a course's.
FOR_PAGES = SimpleNamespace(of=_of, has=server_of)
