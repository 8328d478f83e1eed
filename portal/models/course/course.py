"""Courses: who teaches whom, in which environment, with what resources, and when."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from functools import cache
from typing import Annotated, Literal, Self
from zoneinfo import available_timezones

from pydantic import Field, StringConstraints, field_validator, model_validator

from .. import Frozen
from ..catalog.environment import MAX_DESCRIPTION, AbsolutePath, Environment, Name
from ..session.resources import Resources, SlurmName

# Part of the names of servers, groups, reservations and folders. JupyterHub allows 30 characters
# for a server's name and no two dashes in a row (jupyterhub/slugs.py), and our longest is
# "rehearsal-NAME".
CourseName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", min_length=1, max_length=20)
]
Login = Annotated[str, StringConstraints(pattern=r"^[^\s\x00-\x1f\x7f,:/]{1,255}$")]
Clock = Annotated[str, StringConstraints(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]  # "09:00"
Minutes = Annotated[int, Field(ge=5, le=24 * 60)]
_NOTHING: tuple[date, ...] = ()
_YEARS = (2000, 2200)  # others are typing errors, which clocks may not support


@cache  # it walks a tree of the file system
def zones() -> frozenset[str]:
    """Return the names of the time zones that this machine knows."""
    return frozenset(available_timezones())


class CourseState(StrEnum):
    """State of a course. Whether it runs now also depends on its dates."""

    DRAFT = "draft"  # its instructor still writes it
    REQUESTED = "requested"  # an admin is to approve it
    REFUSED = "refused"
    APPROVED = "approved"
    ARCHIVED = "archived"


class Role(StrEnum):
    """Role of a person in a course."""

    STUDENT = "student"
    ASSISTANT = "assistant"
    INSTRUCTOR = "instructor"


STAFF = frozenset({Role.ASSISTANT, Role.INSTRUCTOR})


class WeeklyTime(Frozen):
    """Weekly meeting time, in the course's time zone; ``day`` 0 is Monday."""

    day: Annotated[int, Field(ge=0, le=6)]
    begins: Clock
    minutes: Minutes


class SingleTime(Frozen):
    """Additional meeting time on a single day, in the course's time zone."""

    date: date
    begins: Clock
    minutes: Minutes


class CourseReservation(Frozen):
    """Resources reserved in Slurm for each meeting; ``nodes`` 0 and ``gpus`` 0: none."""

    nodes: Annotated[int, Field(ge=0, le=4096)] = 0
    gpus: Annotated[int, Field(ge=0, le=65536)] = 0  # where this Slurm can reserve GPUs
    partition: SlurmName | None = None


class Handouts(Frozen):
    """Source of a course's files: a git repository, a folder, or the page alone."""

    kind: Literal["none", "git", "folder"] = "none"
    source: Annotated[str, StringConstraints(max_length=1024)] = ""  # an address; a path
    branch: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._/-]{0,100}$")] = ""


class Course(Frozen):
    """Course as its instructor defines it. Its people are in the roster (CourseMember).

    ``environment`` is a name in the catalog and ``version`` the pinned version, whose content is
    stored with the course (KeptCourse.pinned). ``budget``: GPU-hours, None: no limit. ``help``:
    whether a student must let staff into the session. ``job_kernels``: whether notebooks in its
    members' sessions may have kernels in jobs of their own; ``runs``: whether the sessions may
    start runs.
    """

    name: CourseName
    title: Annotated[str, StringConstraints(min_length=1, max_length=120, strip_whitespace=True)]
    description: Annotated[str, StringConstraints(max_length=MAX_DESCRIPTION)] = ""  # Markdown
    roster_group: Annotated[str, StringConstraints(max_length=255)] = ""  # of the directory
    environment: Name
    version: Annotated[int, Field(ge=1)] | None = None  # None: the newest, at each save
    default: Resources = Resources()  # of one student's session
    largest: Resources = Resources()
    account: SlurmName | None = None  # the Slurm account that sessions are charged to
    budget: Annotated[float, Field(ge=0, le=1e9)] | None = None
    timezone: Annotated[str, StringConstraints(max_length=64)] = "UTC"
    begins: date
    ends: date
    weekly: Annotated[tuple[WeeklyTime, ...], Field(max_length=50)] = ()
    single: Annotated[tuple[SingleTime, ...], Field(max_length=366)] = ()
    without: Annotated[tuple[date, ...], Field(max_length=366)] = _NOTHING  # holidays
    reservation: CourseReservation = CourseReservation()
    prestart: bool = False  # sessions start before each meeting, for everyone
    handouts: Handouts = Handouts()
    data: AbsolutePath | None = None  # read-only in everyone's session
    help: Literal["ask", "always", "off"] = "ask"
    together: bool = False  # a room with shared notebooks
    grades: bool = False  # nbgrader
    job_kernels: bool = False
    runs: bool = False

    @field_validator("timezone")
    @classmethod
    def _a_zone(cls, value: str) -> str:
        if value not in zones():
            raise ValueError(f"'{value}' is not a time zone; an example is 'Europe/Berlin'")
        return value

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.ends < self.begins:
            raise ValueError("the last day is before the first day")
        if self.begins.year < _YEARS[0] or self.ends.year > _YEARS[1]:
            raise ValueError(f"the dates must be in the years {_YEARS[0]} to {_YEARS[1]}")
        if (self.ends - self.begins).days > 2 * 366:
            raise ValueError("a course lasts two years at most; copy it to the next term")
        return self

    @property
    def group(self) -> str:
        """Hub group of everyone in the course."""
        return group_of(self.name)

    @property
    def server(self) -> str:
        """Name of each member's server."""
        return f"course-{self.name}"

    @property
    def room(self) -> str:
        """Name of the server of the staff member who opens the course's room."""
        return f"room-{self.name}"


def group_of(course: str) -> str:
    """Return the Hub group of a course's people; environments name courses by it, too."""
    return f"course-{course}"


class KeptCourse(Frozen):
    """Course as stored. ``number`` counts its edits: a save states the number it is based on.

    ``pinned`` is the environment as it was in the pinned version. Times are Unix seconds.
    """

    course: Course
    state: CourseState = CourseState.DRAFT
    number: int = 1
    pinned: Environment | None = None
    created_by: str
    created_at: float
    changed_at: float
    answer: str = ""  # the admin's, to a request
    answered_by: str = ""
    answered_at: float | None = None
    archived_at: float | None = None

    @property
    def name(self) -> str:
        return self.course.name


class CourseMember(Frozen):
    """Member of a course. ``source``: "list", or "group" for members from the directory;
    ``joined_at``: time at which they joined by themselves, None before."""

    course: str
    person: str
    role: Role
    source: Literal["list", "group"] = "list"
    added_by: str = ""
    added_at: float = 0.0
    joined_at: float | None = None
