"""Cache of courses and their members, for seconds: asked for every decision, in the Hub and in the
service."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from portal.cache import SharedAnswers
from portal.errors import NotAllowed
from portal.models.course.course import CourseMember, StoredCourse
from portal.models.space import Role, SpaceState
from portal.store import Store

_AGE = 3.0  # seconds for which an answer is fresh
_MOST = 20_000  # people, and courses


@dataclass(frozen=True)
class Membership:
    """Role of a person in a course."""

    stored: StoredCourse
    role: Role
    member: CourseMember | None = None


@dataclass
class MembershipCache:
    """Cache of what ``store`` answers, each for ``age`` seconds.

    Every method raises StoreUnavailable, except those that return what is known.
    """

    store: Store
    age: float = _AGE
    _courses: SharedAnswers[str, StoredCourse] = field(init=False)
    _people: SharedAnswers[str, Sequence[CourseMember]] = field(init=False)
    _mine: SharedAnswers[str, Mapping[str, Membership]] = field(init=False)

    def __post_init__(self) -> None:
        how: Any = {"most": _MOST, "keep": False, "ttl": lambda _: self.age}
        self._courses = SharedAnswers(lambda name: self.store.courses.get(name), **how)
        self._people = SharedAnswers(lambda person: self.store.members.of_person(person), **how)
        self._mine = SharedAnswers(self._memberships, **{**how, "ttl": 0.0})  # its parts are kept

    async def space(self, name: str, *, fresh: bool = False) -> StoredCourse:
        """Return a course. Raises NotFound."""
        return await self._courses.for_key(name).get(newer_than=time.monotonic() if fresh else None)

    def known_space(self, name: str) -> StoredCourse | None:
        """Return the last answer of ``space``, however old; None if nobody has asked."""
        return self._courses.last(name)

    async def of_user(self, person: str, *, fresh: bool = False) -> tuple[CourseMember, ...]:
        """Return a person's memberships of all courses, whatever their state."""
        moment = time.monotonic() if fresh else None
        return tuple(await self._people.for_key(person).get(newer_than=moment))

    def known(self, person: str) -> tuple[CourseMember, ...]:
        """Return the last answer of ``of``, however old; () if nobody has asked."""
        return tuple(self._people.last(person) or ())

    async def membership(self, person: str, course: str) -> Membership:
        """Return the membership of ``person`` in ``course``, whatever its state. Raises
        NotAllowed, in the same words whether it does not exist or is others'."""
        for member in await self.of_user(person):
            if member.course == course:
                return Membership(await self.space(course), member.role, member)
        raise NotAllowed(f"There is no course '{course}' that you can access.")

    async def mine(self, person: str, *, patience: float | None = None) -> Mapping[str, Membership]:
        """Return every course that a person is in, by name, whatever its state. Raises
        TimeoutError after ``patience`` seconds; the answer is still kept when it comes."""
        return await self._mine.for_key(person).get(patience=patience)

    def known_to(self, person: str) -> list[Membership]:
        """Return the last answer of ``mine``, however old; [] if nobody has asked."""
        pairs = [(self.known_space(member.course), member.role) for member in self.known(person)]
        return [Membership(stored, role) for stored, role in pairs if stored is not None]

    def forget(self) -> None:
        """Drop all answers, since something was changed here."""
        for answers in (self._courses, self._people, self._mine):
            answers.clear()

    async def _memberships(self, person: str) -> Mapping[str, Membership]:
        roles = {member.course: member.role for member in await self.of_user(person)}
        return {name: Membership(await self.space(name), role) for name, role in roles.items()}


def runs(stored: StoredCourse, now: float) -> bool:
    """Return True if the course is approved and ``now`` (Unix seconds) is one of its days."""
    course = stored.course
    today = datetime.fromtimestamp(now, ZoneInfo(course.timezone)).date()
    return stored.state is SpaceState.APPROVED and course.begins <= today <= course.ends
