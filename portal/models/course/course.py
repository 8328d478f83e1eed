"""Courses: who teaches whom, in which environment, with what resources, and when."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import Field, StringConstraints, field_validator, model_validator

from .. import Frozen
from ..catalog.environment import Name
from ..clock import Clock, zones
from ..session.resources import SlurmName
from ..space import Member, Role, Space, SpaceName, StoredSpace

CourseName = SpaceName
CourseRole = Literal[Role.STUDENT, Role.ASSISTANT, Role.INSTRUCTOR]
Minutes = Annotated[int, Field(ge=5, le=24 * 60)]
_NOTHING: tuple[date, ...] = ()
_YEARS = (2000, 2200)  # others are typing errors, which clocks may not support


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


class Course(Space):
    """Course as its instructor defines it: a space with a schedule, handouts, help and grades. Its
    people are in the roster (CourseMember).

    ``environment`` is a name in the catalog and ``version`` the pinned version, whose content is
    stored with the course (StoredCourse.pinned). ``budget``: GPU-hours, None: no limit. ``help``:
    whether a student must let staff into the session. ``job_kernels``: whether notebooks in its
    members' sessions may have kernels in jobs of their own; ``runs``: whether the sessions may
    start runs.
    """

    noun = "course"
    leader = "instructor"

    environment: Name
    version: Annotated[int, Field(ge=1)] | None = None  # None: the newest, at each save
    timezone: Annotated[str, StringConstraints(max_length=64)] = "UTC"
    begins: date
    ends: date
    weekly: Annotated[tuple[WeeklyTime, ...], Field(max_length=50)] = ()
    single: Annotated[tuple[SingleTime, ...], Field(max_length=366)] = ()
    without: Annotated[tuple[date, ...], Field(max_length=366)] = _NOTHING  # holidays
    reservation: CourseReservation = CourseReservation()
    prestart: bool = False  # sessions start before each meeting, for everyone
    handouts: Handouts = Handouts()
    help: Literal["ask", "always", "off"] = "ask"
    grades: bool = False  # nbgrader

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

    def closed(self, now: float, *, early: bool = False) -> str:
        today = datetime.fromtimestamp(now, ZoneInfo(self.timezone)).date()
        if today > self.ends:
            return f"The {self.called} ended on {_day(self.ends)}. Your files are still there."
        if today < self.begins and not early:
            return f"The {self.called} begins on {_day(self.begins)}."
        return ""

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


def _day(of: date) -> str:
    """Return a date such as "3 May 2027"."""
    return f"{of.day} {of:%B %Y}"


def group_of(course: str) -> str:
    """Return the Hub group of a course's people; environments name courses by it, too."""
    return f"course-{course}"


class StoredCourse(StoredSpace):
    """Course as stored."""

    course: Course

    @property
    def space(self) -> Course:
        return self.course


class CourseMember(Member):
    """Member of a course. ``source``: "list", or "group" for members from the directory;
    ``joined_at``: time at which they joined by themselves, None before."""

    noun = "course"

    course: str

    @property
    def space(self) -> str:
        return self.course
