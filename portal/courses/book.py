"""Which courses there are and who is in them, kept for seconds: what everything that decides asks,
in the Hub and in the service."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

from portal.errors import NotAllowed
from portal.models.course import CourseMember, CourseState, KeptCourse, Role
from portal.store import Store

_AGE = 3.0  # seconds for which an answer is fresh


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
    _courses: dict[str, tuple[float, KeptCourse]] = field(default_factory=dict)
    _people: dict[str, tuple[float, tuple[CourseMember, ...]]] = field(default_factory=dict)

    async def course(self, name: str, *, fresh: bool = False) -> KeptCourse:
        """One course. Raises NotFound."""
        at, kept = self._courses.get(name, (float("-inf"), None))
        if kept is None or fresh or time.monotonic() - at > self.age:
            kept = await self.store.courses.get(name)
            self._courses[name] = (time.monotonic(), kept)
        return kept

    def known_course(self, name: str) -> KeptCourse | None:
        """The last answer of ``course``, however old; None where nobody has asked."""
        return self._courses.get(name, (0.0, None))[1]

    async def of(self, person: str, *, fresh: bool = False) -> tuple[CourseMember, ...]:
        """What somebody is, in every course that they are in, whatever its state."""
        at, known = self._people.get(person, (float("-inf"), ()))
        if fresh or time.monotonic() - at > self.age:
            known = tuple(await self.store.members.of_person(person))
            self._people[person] = (time.monotonic(), known)
        return known

    def known(self, person: str) -> tuple[CourseMember, ...]:
        """The last answer of ``of``, however old; () where nobody has asked."""
        return self._people.get(person, (0.0, ()))[1]

    async def membership(self, person: str, course: str) -> Membership:
        """What ``person`` is in ``course``, whatever its state. Raises NotAllowed, in the same
        words whether it does not exist or is others'."""
        for one in await self.of(person):
            if one.course == course:
                return Membership(await self.course(course), one.role, one)
        raise NotAllowed(f"There is no course '{course}' for you.")

    async def mine(self, person: str) -> Mapping[str, Membership]:
        """Every course that somebody is in, by name, whatever its state."""
        found = {one.course: one.role for one in await self.of(person)}
        return {name: Membership(await self.course(name), role) for name, role in found.items()}

    def known_to(self, person: str) -> list[Membership]:
        """The last answer of ``mine``, however old; [] where nobody has asked."""
        found = [(self.known_course(one.course), one.role) for one in self.known(person)]
        return [Membership(kept, role) for kept, role in found if kept is not None]

    def forget(self) -> None:
        """Ask anew from now on: something was changed here."""
        self._courses.clear()
        self._people.clear()


def runs(kept: KeptCourse, now: float) -> bool:
    """Whether the course is approved and ``now`` (Unix seconds) is one of its days."""
    course = kept.course
    today = datetime.fromtimestamp(now, ZoneInfo(course.timezone)).date()
    return kept.state is CourseState.APPROVED and course.begins <= today <= course.ends
