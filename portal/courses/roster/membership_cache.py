"""Which courses there are and who is in them, kept for seconds: what everything that decides asks,
in the Hub and in the service."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from portal.cache import SharedAnswers
from portal.errors import NotAllowed
from portal.models.course.course import CourseMember, CourseState, KeptCourse, Role
from portal.store import Store

_AGE = 3.0  # seconds for which an answer is fresh
_MOST = 20_000  # people, and courses


@dataclass(frozen=True)
class Membership:
    """What one person is in one course."""

    kept: KeptCourse
    role: Role
    member: CourseMember | None = None


@dataclass
class CourseBook:
    """Asks ``store``; each of its answers is kept for ``age`` seconds.

    Every method raises StoreUnavailable, but those that tell what is known.
    """

    store: Store
    age: float = _AGE
    _courses: SharedAnswers[str, KeptCourse] = field(init=False)
    _people: SharedAnswers[str, Sequence[CourseMember]] = field(init=False)
    _mine: SharedAnswers[str, Mapping[str, Membership]] = field(init=False)

    def __post_init__(self) -> None:
        how: Any = {"most": _MOST, "keep": False, "ttl": lambda _: self.age}
        self._courses = SharedAnswers(lambda name: self.store.courses.get(name), **how)
        self._people = SharedAnswers(lambda person: self.store.members.of_person(person), **how)
        self._mine = SharedAnswers(self._memberships, **{**how, "ttl": 0.0})  # its parts are kept

    async def course(self, name: str, *, fresh: bool = False) -> KeptCourse:
        """One course. Raises NotFound."""
        return await self._courses.of(name).get(newer_than=time.monotonic() if fresh else None)

    def known_course(self, name: str) -> KeptCourse | None:
        """The last answer of ``course``, however old; None where nobody has asked."""
        return self._courses.last(name)

    async def of(self, person: str, *, fresh: bool = False) -> tuple[CourseMember, ...]:
        """What somebody is, in every course that they are in, whatever its state."""
        moment = time.monotonic() if fresh else None
        return tuple(await self._people.of(person).get(newer_than=moment))

    def known(self, person: str) -> tuple[CourseMember, ...]:
        """The last answer of ``of``, however old; () where nobody has asked."""
        return tuple(self._people.last(person) or ())

    async def membership(self, person: str, course: str) -> Membership:
        """What ``person`` is in ``course``, whatever its state. Raises NotAllowed, in the same
        words whether it does not exist or is others'."""
        for one in await self.of(person):
            if one.course == course:
                return Membership(await self.course(course), one.role, one)
        raise NotAllowed(f"There is no course '{course}' for you.")

    async def mine(self, person: str, *, patience: float | None = None) -> Mapping[str, Membership]:
        """Every course that somebody is in, by name, whatever its state. Raises TimeoutError after
        ``patience`` seconds; what is asked for is known all the same when it comes."""
        return await self._mine.of(person).get(patience=patience)

    def known_to(self, person: str) -> list[Membership]:
        """The last answer of ``mine``, however old; [] where nobody has asked."""
        found = [(self.known_course(one.course), one.role) for one in self.known(person)]
        return [Membership(kept, role) for kept, role in found if kept is not None]

    def forget(self) -> None:
        """Ask anew from now on: something was changed here."""
        for answers in (self._courses, self._people, self._mine):
            answers.clear()

    async def _memberships(self, person: str) -> Mapping[str, Membership]:
        found = {one.course: one.role for one in await self.of(person)}
        return {name: Membership(await self.course(name), role) for name, role in found.items()}


def runs(kept: KeptCourse, now: float) -> bool:
    """Whether the course is approved and ``now`` (Unix seconds) is one of its days."""
    course = kept.course
    today = datetime.fromtimestamp(now, ZoneInfo(course.timezone)).date()
    return kept.state is CourseState.APPROVED and course.begins <= today <= course.ends
