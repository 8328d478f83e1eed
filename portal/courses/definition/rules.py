"""Rules of the site for courses: every problem with the name of its field, for a page that
validates while somebody types, and for saving."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from zoneinfo import ZoneInfo

from portal.catalog.files import EnvironmentCatalog
from portal.directory.site_roles import groups_with_roles
from portal.errors import NotFound, PortalError
from portal.launch.course import unfit
from portal.models.catalog.environment import USABLE, Environment
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.course.course import Course, StoredCourse
from portal.models.person import Person
from portal.models.problem import FieldProblem
from portal.models.scope import COURSES_MANAGE
from portal.models.space import SpaceState
from portal.models.words import dated
from portal.store import Store

from ..settings import Courses
from .calendar import all_meetings, overlaps
from .limits import more_than_approved, resource_problems
from .sources import below, repository_problem

_ADDRESSES = ("new", "validate")  # of pages and the API, in the place of a course's name
_MOST_SHOWN = 5  # pairs of meetings that overlap


@dataclass(frozen=True)
class Checked:
    """A course as it would be saved: with its version number and that version's environment, if
    they could be determined."""

    course: Course
    pinned: Environment | None
    problems: tuple[FieldProblem, ...]

    @property
    def meetings(self) -> int:
        """Number of meetings."""
        return len(all_meetings(self.course))

    @property
    def errors(self) -> tuple[FieldProblem, ...]:
        """Problems that prevent saving."""
        return tuple(problem for problem in self.problems if not problem.hint)


@dataclass
class CourseRules:
    """Validation of courses. ``snapshot`` returns the newest view of the cluster, None while there
    is none; ``has_account`` whether Slurm has an account of a name, None if unknown."""

    settings: Courses
    catalog: EnvironmentCatalog
    store: Store
    snapshot: Callable[[], ClusterSnapshot | None] = lambda: None
    has_account: Callable[[str], Awaitable[bool | None]] | None = None

    async def check(
        self, course: Course, by: Person, before: StoredCourse | None = None, *, now: float
    ) -> Checked:
        """Check ``course``, which ``by`` writes to replace ``before``. Raises StoreUnavailable."""
        # Up to five thousand meetings would block the event loop.
        calendar = await asyncio.to_thread(_calendar, course, now)
        problems = [
            *self._names(course, before),
            *calendar,
            *self._roster(course),
            *self._files(course),
        ]
        pinned, number = None, course.version
        stored = before.course if before else None
        same = stored and (stored.environment, stored.version) == (
            course.environment,
            course.version,
        )
        if before and before.pinned and same and course.version is not None:
            pinned = before.pinned  # until it is changed, whatever happened to it in the catalog
        else:
            resolved = await self._environment(course, by)
            if isinstance(resolved, FieldProblem):
                problems.append(resolved)
            else:
                pinned, number = resolved
        if pinned is not None and (wrong := unfit(pinned)):
            problems.append(FieldProblem(field="environment", message=wrong))
        problems += resource_problems(course, pinned, self.snapshot())
        problems += await self._account(course)
        if before and before.state is SpaceState.APPROVED and not by.may(COURSES_MANAGE):
            if self.settings.creation != "free":
                problems += more_than_approved(before.course, course)
        return Checked(course.model_copy(update={"version": number}), pinned, tuple(problems))

    async def _environment(
        self, course: Course, by: Person
    ) -> tuple[Environment, int | None] | FieldProblem:
        """Return the course's environment and its version number; None as number if its file is
        too new to have one."""
        name = course.environment
        await self.catalog.load()
        environment = self.catalog.environments.get(name)
        if environment is not None and environment.private:
            return FieldProblem(
                field="environment",
                message=f"'{name}' is private. Ask an admin to add it to the catalog.",
            )
        for_course = environment is not None and course.name in environment.courses
        if environment is None or not (for_course or self.catalog.sees(by, environment)):
            return FieldProblem(
                field="environment", message=f"There is no environment '{name}' that you may use."
            )
        if course.version is None:
            if environment.state not in USABLE:
                reason = f": {environment.message}" if environment.message else ""
                return FieldProblem(
                    field="environment",
                    message=f"'{name}' is currently {environment.state.value}{reason}.",
                )
            published = (await self.store.versions.published()).get(name)
            if published is None or published.environment != environment:
                return environment, None
            return environment, published.number
        try:
            version = await self.store.versions.get(name, course.version)
        except NotFound as error:
            return FieldProblem(field="version", message=error.message)
        if version.state not in USABLE:
            return FieldProblem(
                field="version",
                message=f"Version {version.number} of '{name}' is {version.state.value}. Choose a "
                "version that has passed its test.",
            )
        return version.environment, version.number

    def _files(self, course: Course) -> list[FieldProblem]:
        """Check that the folders are where the site allows them, and the URL of a repository."""
        problems = []
        folders = {"data": course.data or ""}
        if course.handouts.kind == "folder":
            folders["handouts.source"] = course.handouts.source
            if not course.handouts.source:
                problems.append(
                    FieldProblem(field="handouts.source", message="Enter the path of the folder.")
                )
        for field, path in folders.items():
            if path and not below(path, self.settings.data_roots):
                problems.append(FieldProblem(field=field, message=self._roots(path)))
        if course.handouts.kind == "git":
            wrong = repository_problem(course.handouts.source)
            if wrong:
                problems.append(FieldProblem(field="handouts.source", message=wrong))
        if course.handouts.kind == "none" and course.handouts.source:
            problems.append(
                FieldProblem(
                    field="handouts.kind",
                    message="A source is set, but no kind. Choose the kind 'git' or 'folder', or "
                    "remove the source.",
                )
            )
        if course.grades and not self.settings.exchange_directory:
            problems.append(
                FieldProblem(
                    field="grades",
                    message="Grades are not set up at this site. An admin of the portal can set "
                    "c.Courses.exchange_directory.",
                )
            )
        return problems

    def _names(self, course: Course, before: StoredCourse | None) -> list[FieldProblem]:
        if course.name in _ADDRESSES:
            message = f"The name '{course.name}' is reserved. Choose another name."
            return [FieldProblem(field="name", message=message)]
        if course.group not in groups_with_roles(self.settings.config):
            return []
        exists = before is not None and before.name == course.name
        way = "Ask an admin to rename that group." if exists else "Choose another name."
        message = (
            f"The group '{course.group}' has a role at this site that the course's members must "
            f"not get. {way}"
        )
        # An existing course keeps its name. Its people are not put into that group.
        return [FieldProblem(field="name", message=message, hint=exists)]

    def _roster(self, course: Course) -> list[FieldProblem]:
        group, patterns = course.roster_group, self.settings.roster_groups
        if not group or any(fnmatchcase(group, pattern) for pattern in patterns):
            return []
        allowed = ", ".join(f"'{pattern}'" for pattern in patterns) or "none"
        message = f"The group '{group}' is not allowed as a roster. Allowed groups: {allowed}."
        return [FieldProblem(field="roster_group", message=message)]

    def _roots(self, path: str) -> str:
        roots = ", ".join(self.settings.data_roots)
        if not roots:
            return (
                f"'{path}' is not allowed: this site has no folders for courses. An admin can set "
                "c.Courses.data_roots."
            )
        return f"'{path}' is not in one of the site's folders for courses: {roots}."

    async def _account(self, course: Course) -> list[FieldProblem]:
        if course.account is None or self.has_account is None:
            return []
        try:
            exists = await self.has_account(course.account)
        except PortalError:
            return []  # Slurm does not answer: the readiness of the course tells later
        if exists is not False:
            return []
        return [FieldProblem(field="account", message=f"Slurm has no account '{course.account}'.")]


def _calendar(course: Course, now: float) -> list[FieldProblem]:
    problems = []
    zone = ZoneInfo(course.timezone)

    def day(at: float) -> str:
        return dated(datetime.fromtimestamp(at, zone))

    meetings = all_meetings(course)
    pairs = overlaps(meetings)
    for first, second in pairs[:_MOST_SHOWN]:
        problems.append(
            FieldProblem(
                field="weekly" if course.weekly else "single",
                message=f"The meetings of {day(first.begins)} and {day(second.begins)} overlap.",
            )
        )
    if len(pairs) > _MOST_SHOWN:
        problems.append(
            FieldProblem(
                field="weekly" if course.weekly else "single",
                message=f"{len(pairs) - _MOST_SHOWN} more pairs of meetings overlap.",
            )
        )
    for place, single in enumerate(course.single):
        if not course.begins <= single.date <= course.ends:
            problems.append(
                FieldProblem(
                    field=f"single.{place}.date",
                    message=f"{single.date} is not between {course.begins} and {course.ends}.",
                )
            )
    clocks = {slot.begins for slot in course.weekly} | {slot.begins for slot in course.single}
    for meeting in meetings:
        if f"{datetime.fromtimestamp(meeting.begins, zone):%H:%M}" not in clocks:
            problems.append(
                FieldProblem(
                    field="weekly" if course.weekly else "single",
                    message=f"The clocks go forward on that day, so the meeting begins at "
                    f"{day(meeting.begins)}.",
                    hint=True,
                )
            )
    if course.ends < datetime.fromtimestamp(now, zone).date():
        problems.append(
            FieldProblem(
                field="ends",
                message=f"{course.ends} is in the past: no sessions can start.",
                hint=True,
            )
        )
    wants_times = course.reservation.nodes or course.reservation.gpus or course.prestart
    if wants_times and not meetings:
        problems.append(
            FieldProblem(
                field="weekly",
                message="There are no meetings, so nothing is reserved or started.",
                hint=True,
            )
        )
    return problems
