"""Course pages: a list, a new course, one course for staff and for students, the live board.

What they show at once comes from memory and the database; scripts follow.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from portal.catalog.offers.markdown import markdown_html
from portal.courses.definition.calendar import Meeting, meetings
from portal.courses.definition.limits import ELSEWHERE
from portal.courses.live.board import newest_sessions
from portal.courses.roster.joining import not_joined
from portal.errors import NotAllowed, NotFound, StoreUnavailable
from portal.models import Frozen
from portal.models.catalog.environment import EnvironmentKind, Server
from portal.models.clock import zones
from portal.models.course.course import StoredCourse
from portal.models.scope import COURSES_CREATE, COURSES_MANAGE
from portal.models.session.session import SessionRecord, SessionState
from portal.models.space import STAFF, Role, SpaceState
from portal.spaces.membership_cache import Membership
from portal.work.course.parts import CourseParts

from ..courses.access import COURSE
from .pages import Page

_AHEAD = 200 * 86400.0  # seconds in which a next meeting is looked for
_NEXT = 5
_STATES = {
    SpaceState.DRAFT: "draft",
    SpaceState.REQUESTED: "waiting for approval",
    SpaceState.REFUSED: "refused",
    SpaceState.APPROVED: "approved",
    SpaceState.ARCHIVED: "archived",
}
_OWN = {
    SessionState.PENDING: "Your session is waiting in the Slurm queue.",
    SessionState.STARTING: "Your session is starting.",
    SessionState.RUNNING: "Your session is running.",
}


class CourseLine(Frozen):
    """Course in a list, or at the head of its page. ``look`` is a state of
    templates/status.html, ``state`` its words.

    ``meeting`` is the next one in words, in the course's time zone, "" if there is none.
    """

    name: str
    title: str
    role: str = ""
    look: str
    state: str
    running: bool
    dates: str
    meeting: str = ""
    by: str = ""
    answer: str = ""


class CoursePageBase(Page):
    """Base class of the course pages."""

    @property
    def manages(self) -> bool:
        return self.person.may(COURSES_MANAGE)

    @property
    def creates(self) -> bool:
        """Return True if they may make a course."""
        if self.manages:
            return True
        return (
            self.person.may(COURSES_CREATE)
            and self.parts_for(CourseParts).settings.creation != "off"
        )

    def line(self, stored: StoredCourse, role: Role | None = None) -> CourseLine:
        """Return the course as it is listed for this person."""
        course, now = stored.course, time.time()
        look, state = str(stored.state), _STATES[stored.state]
        running = stored.runs(now)
        if stored.state is SpaceState.APPROVED and not running:
            over = datetime.fromtimestamp(now, ZoneInfo(course.timezone)).date() > course.ends
            look, state = ("ended", "ended") if over else ("planned", "upcoming")
        elif running:
            look = state = "running"
        open_ = stored.state is not SpaceState.ARCHIVED
        ahead = meetings(course, now, now + _AHEAD) if open_ else []
        return CourseLine(
            name=stored.name,
            title=course.title,
            role=str(role) if role else "",
            look=look,
            state=state,
            running=running,
            dates=f"{course.begins:%-d %b %Y} to {course.ends:%-d %b %Y}",
            meeting=meeting_words(stored, ahead[0], now) if ahead else "",
            by=stored.created_by,
            answer=stored.answer,
        )

    async def membership(self, name: str, roles: frozenset[Role]) -> Membership | None:
        """Return this person's membership in the course; None for an admin who is not in it.

        Raises NotAllowed, in the same words if there is no such course, with an audit log entry.
        """
        with contextlib.suppress(NotAllowed, NotFound):
            memberships = self.parts.memberships.of_type("course")
            membership = await memberships.membership(self.person.name, name)
            if membership.role in roles:
                return membership
        if self.manages:
            return None
        await self.refused(f"course {name}")
        raise NotAllowed(f"There is no course '{name}' that you can access.")

    def own_session(self, stored: StoredCourse) -> SessionRecord | None:
        """Return this person's live session of the course, as the dashboard has it."""
        view = self.parts.dashboard.view
        sessions = view.sessions.values() if view else ()
        newest = newest_sessions(
            stored, (session for session in sessions if session.user == self.person.name)
        )
        return newest.get(self.person.name)

    def environments(self) -> list[dict[str, str]]:
        """Return choices for a course: containers with the server inside that this person sees."""
        return [
            {"name": environment.name, "title": environment.title}
            for environment in self.parts.catalog.visible_to(self.person)
            if environment.kind is EnvironmentKind.CONTAINER
            and environment.server is Server.INSIDE
            and not environment.private
        ]

    async def editing(self) -> dict[str, Any]:
        """Return what the form offers to choose from."""
        await self.parts.catalog.load()
        return {
            "environments": self.environments(),
            "zones": sorted(zones()),
            "fields": [field for field in self.form_fields() if field["name"] not in ELSEWHERE],
            "data_roots": list(self.parts_for(CourseParts).settings.data_roots),
            "creation": self.parts_for(CourseParts).settings.creation,
            "manages": self.manages,
        }


class CoursesPage(CoursePageBase):
    """Courses that one is in, and for admins all others."""

    template = "course_list.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        memberships: Mapping[str, Membership] = {}
        courses: list[StoredCourse] = []
        error = ""
        try:
            memberships = await self.parts.memberships.of_type("course").mine(self.person.name)
            if self.manages:
                courses = await self.parts.store.courses.all()
        except StoreUnavailable as failed:
            error = failed.message
        order = {Role.INSTRUCTOR: 0, Role.ASSISTANT: 1, Role.STUDENT: 2}
        rows = sorted(
            memberships.values(),
            key=lambda entry: (
                entry.stored.state is SpaceState.ARCHIVED,
                order[entry.role],
                entry.stored.course.title,
            ),
        )
        seen = [
            entry
            for entry in rows
            if entry.role is not Role.STUDENT or entry.stored.state is SpaceState.APPROVED
        ]
        return {
            "mine": [self.line(entry.stored, entry.role) for entry in seen],
            "requests": [
                self.line(entry) for entry in courses if entry.state is SpaceState.REQUESTED
            ],
            "others": [
                self.line(entry)
                for entry in courses
                if entry.state is not SpaceState.REQUESTED and entry.name not in memberships
            ],
            "manages": self.manages,
            "creates": self.creates,
            "creation": self.parts_for(CourseParts).settings.creation,
            "error": error,
        }


class CourseNewPage(CoursePageBase):
    """New course."""

    template = "course_new.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        if not self.creates:
            await self.refused("courses/new")
            raise NotAllowed(
                "You are not allowed to create courses. Ask an admin of the portal to make you an "
                "instructor."
            )
        return {"editing": await self.editing()}


class CoursePage(CoursePageBase):
    """A course: for its staff and admins to run, in tabs, for its students to open."""

    template = "course.html"

    async def get(self, *segments: str) -> None:
        membership = await self.membership(segments[0], frozenset(Role))
        courses = self.parts.memberships.of_type("course")
        stored = membership.stored if membership else await courses.space(segments[0])
        role = membership.role if membership else None
        preview = self.get_query_argument("as", "") == "student"
        tab = segments[1]
        if role is Role.STUDENT and tab:
            await self.refused(f"course {segments[0]}")
            raise NotAllowed("This page is for the staff of the course.")
        if role is Role.STUDENT or preview:
            self.show("course_student.html", **self._as_student(stored, membership, preview))
            return
        line = self.line(stored, role)
        teaches = role is Role.INSTRUCTOR or self.manages
        changes = teaches and stored.state is not SpaceState.ARCHIVED
        self.show(
            f"course_{tab}.html" if tab else "course.html",
            line=line,
            kept=stored,
            role=role,
            changes=changes,
            facts={
                "course": stored.model_dump(mode="json", exclude={"pinned"}),
                "role": str(role) if role else "",
                "manages": self.manages,
                "changes": changes,
                "running": line.running,
                "editing": await self.editing(),
            },
        )

    head = get

    def _as_student(
        self, stored: StoredCourse, membership: Membership | None, preview: bool
    ) -> dict[str, Any]:
        role, member = (membership.role, membership.member) if membership else (None, None)
        now, course = time.time(), stored.course
        record = self.own_session(stored)
        ahead = meetings(course, now, now + _AHEAD)[:_NEXT]
        return {
            "line": self.line(stored, role),
            "kept": stored,
            "description": markdown_html(course.description),
            "meetings": [meeting_words(stored, meeting, now) for meeting in ahead],
            "preview": preview and role is not Role.STUDENT,
            "server": f"preview-{stored.name}" if preview else course.server,
            "join": bool(member and not_joined(stored.course, member)),
            "own": record,
            "own_words": _OWN.get(record.state, "") if record else "",
            "may_open": role is not None,  # an admin who is in no course has no session of it
            "zone": course.timezone,
        }


class CourseBoardPage(CoursePageBase):
    """Live board of a course."""

    template = "course_board.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        membership = await self.membership(segments[0], STAFF)
        courses = self.parts.memberships.of_type("course")
        stored = membership.stored if membership else await courses.space(segments[0])
        role = membership.role if membership else None
        board = await self.parts_for(CourseParts).boards.board_of(stored, private=role is not None)
        parts = self.parts
        return {
            "kept": stored,
            "line": self.line(stored, role),
            "role": str(role) if role else "",
            "board": board,
            "facts": {
                "course": stored.name,
                "title": stored.course.title,
                "role": str(role) if role else "",
                "server": stored.course.server,
                "help": stored.course.help,
                "minutes": list(parts.extending.minutes),
                "help_minutes": parts.parts_for(CourseParts).settings.help_minutes,
                "running": stored.runs(time.time()),
                "handouts": stored.course.handouts.kind,
                "board": board.model_dump(mode="json", exclude_defaults=True),
            },
        }


def meeting_words(stored: StoredCourse, meeting: Meeting, now: float) -> str:
    """Return the day, the time and the end of a meeting, in the course's time zone."""
    zone = ZoneInfo(stored.course.timezone)
    begins = datetime.fromtimestamp(meeting.begins, zone)
    ends = datetime.fromtimestamp(meeting.ends, zone)
    if meeting.begins <= now:
        return f"now, until {ends:%H:%M}"
    today = datetime.fromtimestamp(now, zone).date()
    away = (begins.date() - today).days
    day = {0: "today", 1: "tomorrow"}.get(away) or f"{begins:%a %-d %b}"
    if begins.year != today.year and away > 1:
        day = f"{begins:%a %-d %b %Y}"
    return f"{day}, {begins:%H:%M}–{ends:%H:%M}"  # noqa: RUF001 - a range


# tornado would hand the groups within the name's pattern to the handlers, too.
_NAME = COURSE.replace("(", "(?:")
# No course has the name of a page (portal/courses/definition/rules.py).
COURSE_PAGES = (
    (r"courses/?", CoursesPage),
    (r"courses/new/?", CourseNewPage),
    (rf"courses/({_NAME})/board/?", CourseBoardPage),
    (rf"courses/({_NAME})(?:/(roster|schedule|files|settings))?/?", CoursePage),
)
