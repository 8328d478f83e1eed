"""A person's courses, first on the home page and on the launch page: one button for each."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from jupyterhub import handlers
from jupyterhub.handlers.pages import HomeHandler, SpawnHandler

from portal.courses.book import CourseBook, Membership
from portal.courses.calendar import meetings
from portal.errors import PortalError
from portal.launch.course import CourseKind, closed, server_of
from portal.models import Frozen
from portal.models.course import CourseState

from .next_meeting import AHEAD, next_meeting
from .shared import Shared

_PATIENCE = 0.3  # seconds that a page waits for the database
_PAGES = frozenset({"home.html", "spawn.html"})


class MyCourse(Frozen):
    """One course of a person's. ``meeting`` says when it meets next; ``closed`` why it has no
    session now."""

    name: str
    title: str
    server: str
    meeting: str = ""
    closed: str = ""


def my_courses(mine: Iterable[Membership], now: float) -> tuple[MyCourse, ...]:
    """Those that have sessions now (Unix seconds) or will have, the one that meets next first."""
    found = []
    for one in mine:
        course = one.kept.course
        reason = closed(one.kept, CourseKind.COURSE, one.role, now)
        today = datetime.fromtimestamp(now, ZoneInfo(course.timezone)).date()
        if one.kept.state is not CourseState.APPROVED or today > course.ends:
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
        found.append((bool(reason), begins, course.name, shown))
    return tuple(shown for *_, shown in sorted(found, key=lambda one: one[:3]))


async def courses_of(book: CourseBook, name: str) -> tuple[MyCourse, ...]:
    """What a page shows. It waits for the database no longer than a moment, and shows what was
    known where that does not answer."""
    try:
        mine: Iterable[Membership] = (await book.mine(name, patience=_PATIENCE)).values()
    except (PortalError, TimeoutError):  # the store says so in the log
        mine = book.known_to(name)
    return my_courses(mine, time.time())


class _WithCourses:
    """What both pages are given: ``courses``, and ``of_course``, which tells courses' servers."""

    config: Any

    def render_template(self, name: str, sync: bool = False, **ns: Any) -> Any:
        if sync or name not in _PAGES:
            return super().render_template(name, sync, **ns)  # type: ignore[misc]
        return self._rendered(name, ns)

    async def _rendered(self, name: str, ns: dict[str, Any]) -> str:
        person = ns.get("for_user") or ns.get("user") or self.current_user  # type: ignore[attr-defined]
        courses = await courses_of(Shared.of(self.config).book, person.name)
        more = {"courses": courses, "of_course": server_of}
        return str(await super().render_template(name, **ns, **more))  # type: ignore[misc]


class CourseHomeHandler(_WithCourses, HomeHandler):
    """The home page."""


class CourseSpawnHandler(_WithCourses, SpawnHandler):
    """The launch page."""


_INSTEAD = {HomeHandler: CourseHomeHandler, SpawnHandler: CourseSpawnHandler}


def register(rows: list[Any]) -> None:
    """Put our handlers in the place of JupyterHub's, in a list of its routes."""
    rows[:] = [(row[0], _INSTEAD.get(row[1], row[1]), *row[2:]) for row in rows]


register(handlers.default_handlers)
