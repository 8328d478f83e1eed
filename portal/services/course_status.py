"""Gathers what a course's session is told of its course. A class asks every few seconds: the
database is asked once for all of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portal.cache import SharedAnswer
from portal.courses.live.presence import kind_of
from portal.errors import NotFound
from portal.models.course.course import CourseMember, KeptCourse
from portal.models.course.live import Collect, CourseMessage, CourseSituation, Presence
from portal.models.session.session import SessionRecord

if TYPE_CHECKING:
    from .core import CoreParts

# Seconds for which an answer is told to all.
_COURSES = 5.0
_LIVE = 2.0
_PATIENCE = 1.0  # seconds that a session waits for a newer answer


@dataclass(frozen=True)
class _Class:
    """A course and who is in it."""

    kept: KeptCourse
    members: Mapping[str, CourseMember]


class CourseSituations:
    """One a service. ``handout_of`` gives the revision that a session's folder should have,
    ``collects_of`` what it has still to give. Neither raises, nor asks anybody for one session."""

    def __init__(
        self,
        parts: CoreParts,
        handout_of: Callable[[SessionRecord], Awaitable[str]],
        collects_of: Callable[[SessionRecord], Awaitable[tuple[Collect, ...]]],
    ) -> None:
        self._parts, self.handout_of, self.collects_of = parts, handout_of, collects_of
        store = parts.store
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

    async def of(self, record: SessionRecord) -> CourseSituation | None:
        """What the session of ``record`` is told; None for one of no course, and until the course
        is read."""
        kind = kind_of(record)
        found = (await self._classes.get()).get(record.course) if kind else None
        if found is None:
            return None
        member, now = found.members.get(record.user), time.time()
        return CourseSituation(
            name=record.course,
            title=found.kept.course.title,
            kind=kind,
            role=str(member.role) if member else "",
            messages=tuple(
                one
                for one in await self.messages.get()
                if one.course == record.course and one.ends_at > now
            ),
            help=self._parts.helping.of_session(record.id),
            help_policy=self._parts.helping.policy(found.kept),
            hand=next(
                (one.hand for one in await self.hands.get() if one.session_id == record.id), ""
            ),
            handout=await self.handout_of(record) if kind != "room" else "",
            collects=await self.collects_of(record) if kind == "course" else (),
        )

    def forget(self) -> None:
        """A message or a hand has changed."""
        self.messages.invalidate()
        self.hands.invalidate()

    async def _read(self) -> Mapping[str, _Class]:
        """The courses of the sessions that live now."""
        view, store = self._parts.dashboard.view, self._parts.store
        names = {one.course for one in view.sessions.values() if kind_of(one)} if view else set()
        found = {}
        for name in names:
            with contextlib.suppress(NotFound):
                members = {one.person: one for one in await store.members.of(name)}
                found[name] = _Class(await store.courses.get(name), members)
        return found
