"""Spaces: for whom something runs, on whose account, and with what limits."""

from __future__ import annotations

from abc import abstractmethod
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from . import Frozen
from .catalog.environment import MAX_DESCRIPTION, AbsolutePath, Environment
from .session.resources import Resources, SlurmName

# Part of the names of servers, groups, reservations and folders. JupyterHub allows 30 characters
# for a server's name and no two dashes in a row (jupyterhub/slugs.py), and our longest is
# "rehearsal-NAME".
SpaceName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", min_length=1, max_length=20)
]
Login = Annotated[str, StringConstraints(pattern=r"^[^\s\x00-\x1f\x7f,:/]{1,255}$")]


class SpaceState(StrEnum):
    """State of a space. Whether it has sessions now can depend on more, such as its dates."""

    DRAFT = "draft"  # whoever leads it still writes it
    REQUESTED = "requested"  # an admin is to approve it
    REFUSED = "refused"
    APPROVED = "approved"
    ARCHIVED = "archived"


class Role(StrEnum):
    """Role of a person in a space."""

    STUDENT = "student"
    ASSISTANT = "assistant"
    INSTRUCTOR = "instructor"
    OWNER = "owner"
    MEMBER = "member"
    READER = "reader"


STAFF = frozenset({Role.ASSISTANT, Role.INSTRUCTOR})


class Space(Frozen):
    """Space as it is defined."""

    noun: ClassVar[str] = "space"  # what people call it
    leader: ClassVar[str] = "owner"  # what they call who leads it
    # It has one environment, in a version whose content is stored (StoredSpace.pinned). Without,
    # the environments of the catalog that it has (`has`).
    pins: ClassVar[bool] = True

    name: SpaceName
    title: Annotated[str, StringConstraints(min_length=1, max_length=120, strip_whitespace=True)]
    description: Annotated[str, StringConstraints(max_length=MAX_DESCRIPTION)] = ""  # Markdown
    roster_group: Annotated[str, StringConstraints(max_length=255)] = ""  # of the directory
    default: Resources = Resources()  # of one member's session
    largest: Resources = Resources()
    account: SlurmName | None = None  # the Slurm account that sessions are charged to
    budget: Annotated[float, Field(ge=0, le=1e9)] | None = None  # GPU-hours; None: no limit
    data: AbsolutePath | None = None  # read-only in everyone's session
    together: bool = False  # a room with shared notebooks
    job_kernels: bool = False  # notebooks may have kernels in jobs of their own
    runs: bool = False  # sessions may start runs

    @property
    def called(self) -> str:
        """What it is, and its title: "project 'Proteins'"."""
        return f"{self.noun} '{self.title}'"

    def has(self, environment: str) -> bool:
        """Return True if a space that pins none has this environment of the catalog."""
        return not self.pins

    def closed(self, now: float, *, early: bool = False) -> str:
        """Return why an approved one has no sessions at ``now`` (Unix seconds); "" if it has.
        ``early``: of those who may start before it begins."""
        return ""


class StoredSpace(Frozen):
    """Space as stored. Times are Unix seconds."""

    state: SpaceState = SpaceState.DRAFT
    number: int = 1  # counts its edits: a save states the number it is based on
    pinned: Environment | None = None  # the environment as it was in the pinned version
    created_by: str
    created_at: float
    changed_at: float
    answer: str = ""  # the admin's, to a request
    answered_by: str = ""
    answered_at: float | None = None
    archived_at: float | None = None

    @property
    @abstractmethod
    def space(self) -> Space:
        """Definition."""

    @property
    def name(self) -> str:
        return self.space.name

    def runs(self, now: float) -> bool:
        """Return True if it is approved and ``now`` (Unix seconds) is within its dates."""
        return self.state is SpaceState.APPROVED and not self.space.closed(now)


class Member(Frozen):
    """Member of a space."""

    noun: ClassVar[str] = "space"  # what the space is called

    person: str
    role: Role
    source: Literal["list", "group"] = "list"  # "group": from the directory's, or the Hub's
    added_by: str = ""
    added_at: float = 0.0
    joined_at: float | None = None  # when they joined by themselves; None: they have not

    @property
    @abstractmethod
    def space(self) -> str:
        """Name of the space."""
