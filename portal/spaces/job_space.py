"""Space of a session, as its job sees it, and the base of the types of spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

from ..errors import InvalidRequest
from ..models import Frozen
from ..models.catalog.environment import Environment
from ..models.cluster.cluster import Association, ClusterSnapshot
from ..models.person import Person
from ..models.space import Role


class Reserved(NamedTuple):
    """Space, and name of the kind, for which the name of a server is reserved."""

    space: str
    work: str


class JobSpace(Frozen):
    """Space ``name`` of a session. A request itself sets only that. This class is the trivial space
    of the session's user ("mine"); each type of spaces has a class of its own (registry.py)."""

    noun: ClassVar[str] = "space"  # also ``Space.noun`` of its definition
    option: ClassVar[str] = ""  # key of ``user_options`` with its name
    isolated: ClassVar[bool] = False  # nothing of the site is seen in it but what it binds
    group_prefix: ClassVar[str] = ""  # begins the names of the Hub's groups of their members
    # Fields that members choose beside those of all spaces (portal/launch/fields.py).
    more_choices: ClassVar[frozenset[str]] = frozenset()
    offered: ClassVar[bool] = False  # the launch page offers its members' spaces
    estimated: ClassVar[bool] = True  # its launch page shows expected starts
    # Class with the Hub's part of its launches, a ``SpaceLaunch`` (spawners/launch/spaces.py).
    launch: ClassVar[str] = ""

    name: str = ""
    title: str = ""
    role: Role | None = None

    @classmethod
    def named(cls, value: object) -> Self | None:
        """Return the space that the value of its option names; None for none. Raises
        InvalidRequest for what cannot be a name."""
        return None

    @classmethod
    def reserves(cls, server: str) -> Reserved | None:
        """Return for what such spaces reserve the name of a server; None if they do not."""
        return None

    @classmethod
    def not_free(cls, server: str) -> InvalidRequest:
        """Return the error that says why a name that it reserves cannot be another's."""
        return InvalidRequest(f"The name '{server[:60]}' is reserved for a {cls.noun}.", cls.option)

    def check_server(self, server: str) -> None:
        """Raise InvalidRequest if no session of this space can have this name."""

    @classmethod
    def unfit(cls, environment: Environment) -> str:
        """Return why an environment cannot be such a space's; "" if it can."""
        return ""

    @classmethod
    def now(
        cls,
        name: str,
        environment: Environment,
        snapshot: ClusterSnapshot,
        person: Person,
        associations: Sequence[Association] | None,
        now: float,
        *,
        needs_gpus: bool = False,
    ) -> Environment:
        """Return ``environment`` as the space ``name`` has it ``now`` (Unix seconds)."""
        return environment

    @property
    def server(self) -> str:
        """Name of the server of a member's own session."""
        return ""

    def own(self) -> dict[str, Any]:
        """Return its part of the ``user_options``."""
        return {self.option: self.name} if self.option else {}

    def home(self, account: str, home: str) -> str:
        """Return the home as it is seen in the session; ``home``: the user's on the node."""
        return home

    def variables(self, work: str) -> dict[str, str]:
        """Return the environment variables of a session of this kind."""
        return {}

    def script_variables(self, account: str, home: str, folder: str) -> dict[str, str]:
        """Return the variables of deploy/session.sh. ``folder`` of the space's folders in the
        user's ``home``; "": the session's home is thrown away."""
        return {}


MINE = JobSpace()
