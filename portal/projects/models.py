"""Projects as their owners define them, and their members."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from portal.models.catalog.environment import Name
from portal.models.plain_text import PLAIN_LINE
from portal.models.session.resources import Resources
from portal.models.space import Member, Role, Space, SpaceName, StoredSpace

_YEARS = (2000, 2200)  # others are typing errors, which clocks may not support
PROJECT = r"[a-z0-9]+(?:-[a-z0-9]+)*"
ProjectRole = Literal[Role.OWNER, Role.MEMBER, Role.READER]
_Flag = Annotated[bool, Field(strict=True)]
# What is charged to a project is started by these.
WORKERS = frozenset({Role.OWNER, Role.MEMBER})


def _no_number(value: object) -> object:
    """Return a date that is no number, which pydantic would take for a time. Raises ValueError."""
    if isinstance(value, (bool, int, float)):
        raise ValueError("a date such as 2027-01-31 is needed")
    return value


def _flag(value: object) -> object:
    """Return true or false; a Literal takes 0 for false. Raises ValueError."""
    if not isinstance(value, bool):
        raise ValueError("true or false is needed")
    return value


class Project(Space):
    """Project: a space whose members work on their own files and in its folder. ``description``:
    its purpose; ``roster_group``: members come from this group of the directory, too."""

    noun = "project"
    pins = False

    title: Annotated[
        str,
        StringConstraints(min_length=1, max_length=120, strip_whitespace=True),
        *PLAIN_LINE,
    ]
    environments: Annotated[tuple[Name, ...], Field(max_length=200)] = ()  # (): all of a member's
    largest: Resources = Resources(gpus=1)
    budget: Annotated[float, Field(ge=0, le=1e9, strict=True)] | None = None
    ends: Annotated[date, BeforeValidator(_no_number)] | None = None  # the last day; None: none
    job_kernels: _Flag = True
    runs: _Flag = True
    data: Literal[None] = None  # its folder is the site's (c.Projects.root)
    together: Annotated[Literal[False], BeforeValidator(_flag)] = False

    @model_validator(mode="after")
    def _has_a_real_end(self) -> Self:
        if self.ends and not _YEARS[0] <= self.ends.year <= _YEARS[1]:
            raise ValueError(f"the end must be in the years {_YEARS[0]} to {_YEARS[1]}")
        return self

    def has(self, environment: str) -> bool:
        return not self.environments or environment in self.environments

    def closed(self, now: float, *, early: bool = False) -> str:
        if self.ends is None or datetime.fromtimestamp(now).date() <= self.ends:
            return ""
        day = f"{self.ends.day} {self.ends:%B %Y}"
        return f"The {self.called} ended on {day}. Its files are still there."


class StoredProject(StoredSpace):
    """Project as stored."""

    project: Project

    @property
    def space(self) -> Project:
        return self.project


class ProjectMember(Member):
    """Member of a project."""

    noun = "project"

    project: SpaceName

    @property
    def space(self) -> str:
        return self.project
