"""End of a course, of a person's time in it, and of its budget: sessions are stopped with a reason,
nothing more is started, help ends. Work stays where it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from zoneinfo import ZoneInfo

from portal.errors import NotFound, PortalError
from portal.models.audit import Outcome
from portal.models.course.audit import CourseAudit
from portal.models.course.course import StoredCourse
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.stop_reason import StopCode, StopReason
from portal.models.space import SpaceState
from portal.work.run.kind import Run

from ..context import SERVICE, CourseContext
from ..start.starting import Starter

_AGAIN = 60.0  # seconds between two tries to stop a session
_ENDED = frozenset({SpaceState.ARCHIVED, SpaceState.REFUSED})
_SPENT = StopReason(
    code=StopCode.BUDGET_USED,
    words="The course has used up its GPU-hours. When its instructor gets more, rerun the points "
    "that did not succeed.",
)
_NO_MEMBER = StopReason(
    code=StopCode.COURSE_OVER,
    words="You are no longer in this course. Your files are still there.",
)

EndHelp = Callable[[str, str, float], Awaitable[None]]


class Closeout:
    """Cleanup after courses that are over, and after people who are no longer in theirs.
    ``end_help`` ends all help in a course: its name, by whom, when."""

    interval = 10.0

    def __init__(
        self, context: CourseContext, starter: Starter, end_help: EndHelp | None = None
    ) -> None:
        self._context, self._starter, self.end_help = context, starter, end_help
        self._asked: dict[str, float] = {}  # sessions: when the Hub was asked to stop them
        self._closed: set[str] = set()  # courses of which everything else has ended

    async def run_due(self, now: float) -> None:
        """End what is due. Raises StoreUnavailable."""
        await self._close(now)
        by_course: dict[str, list[SessionRecord]] = {}
        view = self._context.view()
        for record in view.sessions.values() if view is not None else ():
            if record.space and record.state is not SessionState.ENDED:
                by_course.setdefault(record.space, []).append(record)
        due: list[tuple[SessionRecord, StopReason]] = []
        for course, records in by_course.items():
            due += await self._due(course, records, now)
        living = {record.id for records in by_course.values() for record in records}
        self._asked = {id_: at for id_, at in self._asked.items() if id_ in living}
        turns = asyncio.Semaphore(self._context.settings.at_once)
        await asyncio.gather(*(self._stop(record, reason, now, turns) for record, reason in due))

    async def _close(self, now: float) -> None:
        """End starts and help of courses that are over; once each, unless they are reopened."""
        for stored in await self._context.store.courses.all():
            if stored.state in (SpaceState.DRAFT, SpaceState.REQUESTED):
                continue
            words = ended(stored, now)
            if not words:
                self._closed.discard(stored.name)
            elif stored.name not in self._closed:
                await self._starter.end_all(stored.name, words)
                if self.end_help is not None:
                    await self.end_help(stored.name, SERVICE, now)
                self._closed.add(stored.name)

    async def _due(
        self, course: str, records: list[SessionRecord], now: float
    ) -> list[tuple[SessionRecord, StopReason]]:
        store = self._context.store
        try:
            stored = await store.courses.get(course)
        except NotFound:
            return []
        if words := ended(stored, now):
            over = StopReason(code=StopCode.COURSE_OVER, words=words)
            return [(record, over) for record in records]
        members = {member.person for member in await store.members.of_space(course)}
        due = [(record, _NO_MEMBER) for record in records if record.user not in members]
        # A session ends by its time limit, and the points of a run may go on for months.
        budget = stored.course.budget
        runs = [record for record in records if record.work == Run.name and record.user in members]
        runs = [run for run in runs if run.options.get("gpus")]
        if runs and budget is not None and await store.usage.of_space(course) >= budget:
            due += [(run, _SPENT) for run in runs]
        return due

    async def _stop(
        self, record: SessionRecord, reason: StopReason, now: float, turns: asyncio.Semaphore
    ) -> None:
        if 0 <= now - self._asked.get(record.id, float("-inf")) < _AGAIN:
            return
        self._asked[record.id] = now
        outcome, detail = None, reason.words
        try:
            async with turns:
                await self._context.hub.stop_server(record.user, record.server, reason=reason)
            outcome = Outcome.DONE
        except NotFound:
            return
        except PortalError as error:
            outcome, detail = Outcome.FAILED, f"{reason.words} {error.message}"
        except Exception:
            self._context.log.exception("Session %s could not be stopped", record.id)
            return
        await self._context.noted(
            CourseAudit.STOP_COURSE_SESSION,
            record.space,
            detail,
            owner=record.user,
            outcome=outcome,
        )


def ended(stored: StoredCourse, now: float) -> str:
    """Return why the course is over, in words for its members; "" if it is not."""
    course = stored.course
    if stored.state in _ENDED:
        return "The course is archived. Your files are still there."
    today = datetime.fromtimestamp(now, ZoneInfo(course.timezone)).date()
    if today > course.ends:
        return "The course has ended. Your files are still there."
    return ""
