"""Status of a course for its sessions. They ask every few seconds: the database is read once for
all of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from portal.cache import SharedAnswer
from portal.dashboard import Dashboard
from portal.errors import NotFound
from portal.launch.course_space import purpose_of
from portal.launch.kinds import kind_of
from portal.models.course.course import CourseMember, StoredCourse
from portal.models.course.live import Collect, CourseMessage, CourseSituation, Presence
from portal.models.session.session import SessionRecord
from portal.store import Store

from .helping import Helping
from .presence import is_own, is_present, is_room

# Seconds for which an answer is shared.
_COURSES = 5.0
_LIVE = 2.0
_PATIENCE = 1.0  # seconds that a session waits for a newer answer


@dataclass(frozen=True)
class _Class:
    """Course with its members."""

    stored: StoredCourse
    members: Mapping[str, CourseMember]


class CourseSituations:
    """Status of courses for their sessions, one instance per service. ``handout_of`` returns the
    revision that a session's folder should have, ``collects_of`` its open collections. Neither
    raises, nor queries anything for a single session."""

    def __init__(
        self,
        store: Store,
        dashboard: Dashboard,
        helping: Helping,
        handout_of: Callable[[SessionRecord], Awaitable[str]],
        collects_of: Callable[[SessionRecord], Awaitable[tuple[Collect, ...]]],
    ) -> None:
        self._store, self._dashboard, self._helping = store, dashboard, helping
        self.handout_of, self.collects_of = handout_of, collects_of
        how: Any = {"patience": _PATIENCE}
        self._classes = SharedAnswer[Mapping[str, _Class]](
            self._read, ttl=_COURSES, first={}, **how
        )
        self.messages = SharedAnswer[list[CourseMessage]](
            lambda: store.course_messages.active(time.time()), ttl=_LIVE, first=[], **how
        )
        self.hands = SharedAnswer[list[Presence]](
            lambda: store.presence.hands(), ttl=_LIVE, first=[], **how
        )

    async def status_of(self, record: SessionRecord) -> CourseSituation | None:
        """Return the course's status for the session of ``record``; None without a course, and
        until the course is read."""
        course = (await self._classes.get()).get(record.space) if is_present(record) else None
        if course is None:
            return None
        member, now = course.members.get(record.user), time.time()
        return CourseSituation(
            name=record.space,
            title=course.stored.course.title,
            kind=purpose_of(kind_of(record).name),
            role=str(member.role) if member else "",
            messages=tuple(
                item
                for item in await self.messages.get()
                if item.course == record.space and item.ends_at > now
            ),
            help=self._helping.of_session(record.id),
            help_policy=self._helping.policy(course.stored),
            hand=next(
                (item.hand for item in await self.hands.get() if item.session_id == record.id), ""
            ),
            handout=await self.handout_of(record) if not is_room(record) else "",
            collects=await self.collects_of(record) if is_own(record) else (),
        )

    def forget(self) -> None:
        """Discard the shared answers after a message or a hand has changed."""
        self.messages.invalidate()
        self.hands.invalidate()

    async def _read(self) -> Mapping[str, _Class]:
        """Read the courses of the sessions that live now."""
        view, store = self._dashboard.view, self._store
        sessions = view.sessions.values() if view else ()
        names = {record.space for record in sessions if is_present(record)}
        courses = {}
        for name in names:
            with contextlib.suppress(NotFound):
                members = {item.person: item for item in await store.members.of_space(name)}
                courses[name] = _Class(await store.courses.get(name), members)
        return courses
