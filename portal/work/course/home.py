"""Home's parts of courses: today's meetings and who waits for help, the next class of a member, and
the requests that wait for an admin."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote
from zoneinfo import ZoneInfo

from portal.courses.definition.calendar import meetings
from portal.courses.roster.my_courses import courses_of
from portal.models.course.course import Course
from portal.models.person import Person
from portal.models.space import STAFF, SpaceState

if TYPE_CHECKING:
    from portal.assembly import Services

_CLASSES, _WAITING = 3, 8  # shown at most


class Today(NamedTuple):
    """Course of a staff member: its meetings today ("10:00-11:30"), whether one is ``on``, and the
    students who wait for help, the longest first."""

    name: str
    title: str
    times: tuple[str, ...]
    on: bool
    waiting: tuple[str, ...]


class HomeCourses:
    """Courses of a user."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def today(self, person: Person) -> Mapping[str, Any] | None:
        """Return the courses that the user teaches and that meet today, or in which someone waits;
        None for a user who teaches none."""
        mine = await self._services.memberships.of_type("course").mine(person.name)
        taught = [
            membership.stored.course
            for membership in mine.values()
            if membership.role in STAFF and membership.stored.state is SpaceState.APPROVED
        ]
        if not taught:
            return None
        view = self._services.dashboard.view
        living = {record.id for record in view.sessions.values()} if view else None
        hands: dict[str, list[str]] = {}
        for presence in await self._services.store.presence.hands():
            if living is None or presence.session_id in living:
                hands.setdefault(presence.course, []).append(presence.person)
        now = time.time()
        shown = [_today(course, tuple(hands.get(course.name, ())), now) for course in taught]
        courses = [course for course in shown if course.times or course.waiting]
        courses.sort(key=lambda course: (not course.waiting, not course.on, course.times))
        return {"courses": courses, "most": _WAITING}

    async def following(self, person: Person) -> Mapping[str, Any] | None:
        """Return the user's courses, the next class first; None without any."""
        courses = await courses_of(self._services.memberships, person.name)
        if not courses:
            return None
        view = self._services.dashboard.view
        records = view.sessions.values() if view else ()
        return {
            "courses": courses[:_CLASSES],
            "more": len(courses) > _CLASSES,
            "progress": f"{self._services.base}hub/spawn-pending/{quote(person.name, safe='@~')}",
            "running": {record.server for record in records if record.user == person.name},
        }

    async def requests(self) -> Mapping[str, Any] | None:
        """Return the courses that wait for approval; None without any."""
        courses = await self._services.store.courses.all(SpaceState.REQUESTED)
        url = f"{self._services.prefix}courses"
        tasks = [
            {"state": "requested", "title": stored.course.title, "words": "", "url": url}
            for stored in courses
        ]
        return {"tasks": tasks} if tasks else None


def _today(course: Course, waiting: tuple[str, ...], now: float) -> Today:
    zone = ZoneInfo(course.timezone)
    day = datetime.fromtimestamp(now, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    following = meetings(course, day.timestamp(), (day + timedelta(days=1)).timestamp())
    times = (
        f"{datetime.fromtimestamp(meeting.begins, zone):%H:%M}\N{EN DASH}"
        f"{datetime.fromtimestamp(meeting.ends, zone):%H:%M}"
        for meeting in following
    )
    on = any(meeting.begins <= now < meeting.ends for meeting in following)
    return Today(course.name, course.title, tuple(times), on, waiting)
