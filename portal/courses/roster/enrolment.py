"""Enrolment in courses: people join and leave by a list, or by a group of the directory."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

from portal.directory import Directory
from portal.errors import Conflict, InvalidRequest, NotFound, PortalError
from portal.models import Frozen
from portal.models.course.course import CourseMember, StoredCourse
from portal.models.course.problem import RosterProblem
from portal.models.space import Role, SpaceState
from portal.service_accounts import is_service, service_accounts
from portal.spaces.membership_cache import MembershipCache
from portal.store import Store

from ..settings import Courses
from . import roster

_MOST = 10_000  # people of one course


class Enrolled(Frozen):
    """Result of enrolling a list. ``unknown`` are not in the directory, and so not in the course;
    ``checked``: whether a directory that lists all users was queried. ``refused`` may not have this
    role."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    there: tuple[str, ...] = ()  # had this role before
    twice: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    problems: tuple[RosterProblem, ...] = ()
    checked: bool = True


@dataclass
class Enrolment:
    """Changes of the members of courses. ``left`` is called with people who left a course, to end
    what they have running there.

    Every method but ``look`` raises StoreUnavailable.
    """

    interval: ClassVar[float] = 10.0  # seconds between two looks (portal/courses/schedule/loop.py)

    store: Store
    memberships: MembershipCache
    directory: Directory
    settings: Courses
    log: logging.Logger
    left: Callable[[StoredCourse, Sequence[str]], Awaitable[None]] | None = None
    troubles: dict[str, str] = field(default_factory=dict)  # of copying a group, by course
    _due: dict[str, tuple[float, str]] = field(default_factory=dict)

    @cached_property
    def services(self) -> frozenset[str]:
        """Accounts that belong to no person."""
        return service_accounts(self.settings.config)

    async def enrol(
        self,
        stored: StoredCourse,
        text: str,
        role: Role,
        by: str,
        *,
        replace: bool = False,
        trusted: bool = False,
    ) -> Enrolled:
        """Enrol the people of a pasted list or CSV as ``role``. ``replace`` removes those of that
        role who are not on it (those of a group stay). ``trusted``: the caller may make anybody an
        instructor, even if it is unknown whether they may run courses.

        Raises Conflict if the course is archived, InvalidRequest, DirectoryUnavailable.
        """
        if stored.state is SpaceState.ARCHIVED:
            raise Conflict("This course is archived, so its roster cannot change.")
        read = await asyncio.to_thread(roster.read, text, self.services)
        names, unknown = await self._known(read.names)
        refused = () if trusted or role is not Role.INSTRUCTOR else await self._refused(names, by)
        names = [name for name in names if name not in refused]
        before = {
            member.person: member for member in await self.store.members.of_space(stored.name)
        }
        if len(before.keys() | set(names)) > _MOST:
            raise InvalidRequest(f"A course can have at most {_MOST} members.", "text")
        existing = [name for name in names if name in before and before[name].role is role]
        new = [name for name in names if name not in existing]
        # Staff do not become students by being in the list of their students.
        staff: list[str] = []
        if role is Role.STUDENT:
            staff = [name for name in new if name in before]
            new = [name for name in new if name not in before]
        gone = []
        if replace and not read.problems and not unknown:
            gone = [
                member.person
                for member in before.values()
                if member.role is role and member.source == "list" and member.person not in names
            ]
        self._demand_instructor(before, {*gone}, dict.fromkeys(new, role))
        # People from a group who are now in the list stay when they leave the group.
        listed = [name for name in existing if before[name].source == "group"]
        await self._put(stored.name, [*new, *listed], role, by)
        await self._remove(stored, gone)
        return Enrolled(
            added=tuple(new),
            removed=tuple(gone),
            there=tuple([*existing, *staff]),
            twice=read.twice,
            unknown=tuple(unknown),
            refused=tuple(refused),
            problems=read.problems,
            checked=self.directory.on and self.directory.complete,
        )

    async def dismiss(self, stored: StoredCourse, people: Collection[str]) -> tuple[str, ...]:
        """Remove people from the course; return who was in it. Raises NotFound if nobody was,
        Conflict for the last instructor, and for people who would return from the directory's
        group."""
        before = {
            member.person: member for member in await self.store.members.of_space(stored.name)
        }
        gone = [name for name in people if name in before]
        if not gone:
            raise NotFound(f"There is no such member in the course '{stored.name}'.")
        group = stored.course.roster_group
        if group and any(before[name].source == "group" for name in gone):
            raise Conflict(
                f"This member comes from the directory group '{group}', which is this course's "
                "roster. Remove them from the group."
            )
        self._demand_instructor(before, set(gone), {})
        await self._remove(stored, gone)
        return tuple(gone)

    # -- groups of the directory -----------------------------------------------------------------

    async def run_due(self, now: float) -> None:
        """Copy the groups of courses that are due. Raises nothing."""
        if not self.directory.on:
            return
        try:
            courses = await self.store.courses.all(SpaceState.APPROVED, SpaceState.REQUESTED)
        except PortalError:
            return  # the next look asks again
        named = {course.name: course for course in courses if course.course.roster_group}
        for name in set(self._due) | set(self.troubles):
            if name not in named:
                self._due.pop(name, None)
                self.troubles.pop(name, None)
        for name, stored in named.items():
            due, group = self._due.get(name, (0.0, ""))
            if group != stored.course.roster_group or now >= due:
                self._due[name] = now + self.settings.roster_interval, stored.course.roster_group
                await self._copied(stored)

    async def _copied(self, stored: StoredCourse) -> None:
        try:
            await self.copy_group(stored)
            self.troubles.pop(stored.name, None)
        except PortalError as error:
            if self.troubles.get(stored.name) != error.message:
                self.log.warning("The roster of course %s: %s", stored.name, error.message)
            self.troubles[stored.name] = error.message

    async def copy_group(self, stored: StoredCourse) -> tuple[int, int]:
        """Make the students of the course's group its members, and remove those who left the
        group; return how many came and went. People in the list keep their role.

        Raises NotFound, DirectoryUnavailable, ConfigurationError: then nothing is changed.
        """
        group = stored.course.roster_group
        members = await self.directory.members_of(group) if group else ()
        names = [name for name in members if not is_service(name, self.services)]
        if len(names) > _MOST:
            raise InvalidRequest(
                f"The group '{group}' has {len(names)} members; the limit is {_MOST}."
            )
        before = {
            member.person: member for member in await self.store.members.of_space(stored.name)
        }
        new = [name for name in names if name not in before]
        gone = [
            member.person
            for member in before.values()
            if member.source == "group"
            and member.role is Role.STUDENT
            and member.person not in names
        ]
        await self._put(stored.name, new, Role.STUDENT, group, "group")
        await self._remove(stored, gone)
        return len(new), len(gone)

    # -- the pieces ------------------------------------------------------------------------------

    async def _known(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the names that the directory has, as the Hub spells them, and those that it does
        not have; if it cannot tell, all as they are written."""
        if not self.directory.on or not self.directory.complete or not names:
            return list(names), []
        known = await self.directory.known(names)
        matched = dict.fromkeys(known[name] for name in names if name in known)
        return list(matched), [name for name in names if name not in known]

    async def _refused(self, names: Sequence[str], by: str) -> list[str]:
        """Return who may not be made an instructor, as the directory tells; without one, everyone
        but ``by``."""
        if not self.directory.on:
            return [name for name in names if name != by]
        return [n for n in names if n != by and not await self.directory.may_teach(n)]

    def _demand_instructor(
        self, before: dict[str, CourseMember], gone: set[str], new: dict[str, Role]
    ) -> None:
        roles = {name: member.role for name, member in before.items() if name not in gone} | new
        had = any(member.role is Role.INSTRUCTOR for member in before.values())
        if had and Role.INSTRUCTOR not in roles.values():
            raise Conflict("A course needs an instructor. Add another instructor first.")

    async def _put(
        self,
        course: str,
        names: Sequence[str],
        role: Role,
        by: str,
        source: Literal["list", "group"] = "list",
    ) -> None:
        at = time.time()
        members = [
            CourseMember(
                course=course, person=name, role=role, source=source, added_by=by, added_at=at
            )
            for name in names
        ]
        await self.store.members.put(members)
        self.memberships.forget()

    async def _remove(self, stored: StoredCourse, names: Sequence[str]) -> None:
        if not names:
            return
        await self.store.members.remove(stored.name, names)
        self.memberships.forget()
        if self.left is not None:
            await self.left(stored, names)
