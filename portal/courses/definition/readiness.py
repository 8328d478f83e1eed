"""Readiness of a course: its demand against the supply, and members who lack something."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from portal.errors import InvalidRequest, PortalError
from portal.models import Frozen
from portal.models.cluster.cluster import Association, ClusterSnapshot
from portal.models.course.course import CourseMember, StoredCourse
from portal.models.space import Role, SpaceState
from portal.models.words import dated
from portal.store import Store

from ..roster.homes import HomeFinder
from ..roster.joining import not_joined, takes_joining
from .calendar import Meeting, all_meetings, overlaps
from .demand import Demand, demand_of, reserved_gpus
from .limits import hours

if TYPE_CHECKING:
    from portal.slurm import Cluster
    from portal.slurm.control.reservations import ReservationControl

_OURS = "course-"  # reservations of courses; these are compared by their calendars


class Sign(StrEnum):
    """Severity of a result."""

    GOOD = "good"
    WARN = "warn"  # the course can be held, but somebody should look
    BAD = "bad"
    UNKNOWN = "unknown"  # cannot be determined now


class Point(Frozen):
    """Result of a check. ``people``: those concerned."""

    key: str
    sign: Sign
    message: str
    people: tuple[str, ...] = ()


class Readiness(Frozen):
    """Results of all checks; ``demand``: numbers of the supply check. ``ready``: none is bad."""

    points: tuple[Point, ...]
    demand: Demand | None
    ready: bool


@dataclass
class CourseReadiness:
    """Checks of a course. Slurm's accounting is queried once for all people."""

    store: Store
    cluster: Cluster
    snapshot: Callable[[], ClusterSnapshot | None]
    reserving: ReservationControl
    homes: HomeFinder = field(default_factory=HomeFinder)

    async def check_course(self, stored: StoredCourse) -> Readiness:
        """Check what is ready and what is not. Raises StoreUnavailable."""
        members = await self.store.members.of_space(stored.name)
        students = [member for member in members if member.role is Role.STUDENT]
        snapshot = self.snapshot()
        demand = demand_of(stored, len(students), snapshot) if snapshot else None
        people = [member.person for member in members]
        slurm, homes, image, clashes, reserved = await asyncio.gather(
            self._accounts(stored, people),
            self._homes(people),
            asyncio.to_thread(_image, stored),
            self._meetings(stored, snapshot),
            self._reserved(stored, snapshot),
        )
        points = [
            _people(members, stored),
            _joined(students, stored),
            *_supply(demand),
            _budget(stored, len(students)),
            *slurm,
            *homes,
            image,
            *clashes,
            reserved,
        ]
        results = tuple(point for point in points if point is not None)
        return Readiness(
            points=results,
            demand=demand,
            ready=all(point.sign is not Sign.BAD for point in results),
        )

    async def _accounts(self, stored: StoredCourse, people: Sequence[str]) -> list[Point]:
        """Check who may not run jobs, before Slurm refuses them at a meeting."""
        asked = await asyncio.gather(*map(self._of, people), return_exceptions=True)
        missing, other, account = [], [], stored.course.account
        for person, rows in zip(people, asked, strict=True):
            if isinstance(rows, InvalidRequest):
                missing.append(person)
            elif isinstance(rows, PortalError):
                return [Point(key="slurm", sign=Sign.UNKNOWN, message=rows.message)]
            elif isinstance(rows, BaseException):
                raise rows
            elif rows is None:
                words = "This site has no Slurm accounting: everyone can run jobs."
                return [Point(key="slurm", sign=Sign.GOOD, message=words)]
            elif not rows:
                missing.append(person)
            elif account and account not in {row.account for row in rows}:
                other.append(person)
        points = []
        if missing:
            words = f"{_number(missing)} no Slurm account. An admin can add them with sacctmgr."
            points.append(_named("slurm", Sign.BAD, words, missing))
        if other:
            words = f"{_number(other)} no access to the Slurm account '{account}'."
            points.append(_named("account", Sign.BAD, words, other))
        if not points and people:
            points.append(Point(key="slurm", sign=Sign.GOOD, message="Everyone can run jobs."))
        return points

    async def _reserved(
        self, stored: StoredCourse, snapshot: ClusterSnapshot | None
    ) -> Point | None:
        """Check before the first meeting whether Slurm can reserve the GPUs."""
        if snapshot is None:
            return None
        gpus, gpu_type = reserved_gpus(stored, snapshot)
        if not gpus:
            return None
        try:
            why = await self.reserving.untracked(gpu_type)
        except PortalError as error:
            return Point(key="reservable", sign=Sign.UNKNOWN, message=error.message)
        if not why:
            what = f"{gpu_type} GPUs" if gpu_type else "GPUs"
            words = f"Slurm can reserve {what}, with all cores of their nodes."
            return Point(key="reservable", sign=Sign.GOOD, message=words)
        reserved = stored.course.reservation
        if reserved.nodes and not reserved.gpus:
            why = (
                f"Not all nodes {f'of {reserved.partition!r} ' if reserved.partition else ''}have "
                f"{gpu_type} GPUs, and Slurm cannot reserve by type. {why}"
            )
        sign = Sign.WARN if reserved.nodes else Sign.BAD
        return Point(key="reservable", sign=sign, message=why)

    async def _of(self, person: str) -> tuple[Association, ...] | None:
        return await self.cluster.associations(person)

    async def _homes(self, people: Sequence[str]) -> list[Point]:
        if not people:
            return []
        homes = await self.homes.find_homes(people)
        points = []
        if homes.no_account and not homes.error:
            words = f"{_number(homes.no_account)} no account on the portal's machine."
            points.append(_named("account-here", Sign.BAD, words, homes.no_account))
        if homes.no_home:
            words = f"{_number(homes.no_home)} no home directory."
            points.append(_named("home", Sign.BAD, words, homes.no_home))
        if homes.error:
            points.append(Point(key="home", sign=Sign.UNKNOWN, message=homes.error))
        elif not points:
            words = "Everyone has an account and a home directory."
            points.append(Point(key="home", sign=Sign.GOOD, message=words))
        return points

    async def _meetings(
        self, stored: StoredCourse, snapshot: ClusterSnapshot | None
    ) -> list[Point]:
        """Check what else is reserved while the course meets."""
        courses = await self.store.courses.all(SpaceState.APPROVED)
        # Years of meetings of many courses would block the event loop.
        return await asyncio.to_thread(_clashes, stored, courses, snapshot)


def _people(members: Sequence[CourseMember], stored: StoredCourse) -> Point:
    students = sum(member.role is Role.STUDENT for member in members)
    if students:
        words = f"The course has {students} students."
        return Point(key="roster", sign=Sign.GOOD, message=words)
    words = "The roster is empty."
    if stored.course.roster_group:
        words += f" Members of '{stored.course.roster_group}' are added after you request approval."
    return Point(key="roster", sign=Sign.WARN, message=words)


def _joined(students: Sequence[CourseMember], stored: StoredCourse) -> Point | None:
    """Check for which students nobody else can start a session before the meeting."""
    if not takes_joining(stored.course) or not students:
        return None
    people = [student.person for student in students if not_joined(stored.course, student)]
    if not people:
        return Point(key="joined", sign=Sign.GOOD, message="Everyone has joined the course.")
    words = (
        f"{_number(people)} not joined yet, so others cannot start their GPU sessions. They can "
        "press Join on the course's page, or an admin can give the course its own Slurm account."
    )
    return _named("joined", Sign.WARN, words, people)


def _supply(demand: Demand | None) -> list[Point]:
    if demand is None:
        words = "Slurm has not reported the cluster's resources yet."
        return [Point(key="supply", sign=Sign.UNKNOWN, message=words)]
    if not demand.students:
        return []
    sign = Sign.WARN if demand.most_gpus > demand.gpus_there else Sign.GOOD
    if demand.seats < demand.students:
        sign = Sign.BAD
    return [Point(key="supply", sign=sign, message=demand.words)]


def _budget(stored: StoredCourse, students: int) -> Point | None:
    course = stored.course
    if course.budget is None or not students:
        return None
    wanted = hours(course) * students * course.default.gpus * course.default.nodes
    if not wanted:
        return None
    words = f"All meetings together need {wanted:g} GPU-hours; the budget is {course.budget:g}."
    sign = Sign.GOOD if wanted <= course.budget else Sign.WARN
    return Point(key="budget", sign=sign, message=words)


def _image(stored: StoredCourse) -> Point:
    """Check the image. Blocks."""
    pinned = stored.pinned
    if pinned is None:
        return Point(key="image", sign=Sign.BAD, message="The course has no environment.")
    if pinned.image is None:
        words = f"'{pinned.title}' has no image yet. An admin can build it."
        return Point(key="image", sign=Sign.BAD, message=words)
    try:
        Path(pinned.image).stat()
    except FileNotFoundError:
        words = f"The image of '{pinned.title}' is missing: {pinned.image}."
        return Point(key="image", sign=Sign.BAD, message=words)
    except OSError as error:
        words = f"The image {pinned.image} cannot be checked: {error.strerror}."
        return Point(key="image", sign=Sign.UNKNOWN, message=words)
    return Point(key="image", sign=Sign.GOOD, message=f"The image of '{pinned.title}' exists.")


def _clashes(
    stored: StoredCourse, courses: Sequence[StoredCourse], snapshot: ClusterSnapshot | None
) -> list[Point]:
    own_meetings = _ahead(stored)
    if not own_meetings:
        return []
    points = []
    for other in courses:
        if other.name == stored.name or not _reserves(other):
            continue
        pairs = overlaps(own_meetings, _ahead(other))
        if pairs:
            points.append(_clash(stored, other, pairs, snapshot))
    for name, reservation in sorted((snapshot.reservations if snapshot else {}).items()):
        if name.startswith(_OURS):
            continue
        taken = Meeting(reservation.start_time, reservation.end_time)
        pairs = overlaps(own_meetings, [taken])
        if pairs:
            words = (
                f"The reservation '{name}' holds {len(reservation.nodes)} nodes during "
                f"{_meetings_words(stored, pairs)}."
            )
            points.append(Point(key="reservations", sign=Sign.WARN, message=words))
    return points


def _clash(
    stored: StoredCourse,
    other: StoredCourse,
    pairs: Sequence[tuple[Meeting, Meeting]],
    snapshot: ClusterSnapshot | None,
) -> Point:
    """Judge two courses that meet at once: bad only if together they need more nodes than there
    are."""
    reservation, other_reservation = stored.course.reservation, other.course.reservation
    held = (
        f"{other_reservation.nodes} nodes"
        if other_reservation.nodes
        else f"{other_reservation.gpus} GPUs"
    )
    words = f"The course '{other.course.title}' reserves {held} during "
    words += f"{_meetings_words(stored, pairs)}."
    sign = Sign.WARN
    apart = (
        reservation.partition
        and other_reservation.partition
        and reservation.partition != other_reservation.partition
    )
    if snapshot is not None and not apart:
        partition = snapshot.partitions.get(
            reservation.partition or other_reservation.partition or ""
        )
        node_count = len(partition.nodes) if partition else len(snapshot.nodes)
        if reservation.nodes and reservation.nodes + other_reservation.nodes > node_count:
            sign = Sign.BAD
            words += (
                f" Together that is {reservation.nodes + other_reservation.nodes} nodes "
                f"of {node_count}."
            )
    return Point(key="meetings", sign=sign, message=words)


def _meetings_words(stored: StoredCourse, pairs: Sequence[tuple[Meeting, Meeting]]) -> str:
    zone = ZoneInfo(stored.course.timezone)
    first = dated(datetime.fromtimestamp(pairs[0][0].begins, zone))
    times = len({meeting for meeting, _ in pairs})
    return f"the meeting of {first}" if times == 1 else f"{times} meetings, the first on {first}"


def _ahead(stored: StoredCourse) -> list[Meeting]:
    now = time.time()
    return [meeting for meeting in all_meetings(stored.course) if meeting.ends > now]


def _reserves(stored: StoredCourse) -> bool:
    return bool(stored.course.reservation.nodes or stored.course.reservation.gpus)


def _number(people: Sequence[str]) -> str:
    return f"{people[0]} has" if len(people) == 1 else f"{len(people)} members have"


def _named(key: str, sign: Sign, words: str, people: Sequence[str]) -> Point:
    return Point(key=key, sign=sign, message=words, people=tuple(people))
