"""A kind of session: what runs in its job, and what follows from that.

An object of a kind holds the options that are its own. Everything else asks the kind, and knows
none by name. What a kind has to ask of the Hub stands in ``Hub``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from ...errors import InvalidRequest, NotAllowed
from ...models import Frozen
from ...models.catalog.environment import Environment
from ...models.cluster.cluster import Association, ClusterSnapshot
from ...models.session.resources import Resources


def environment_of(name: str | None, environments: Mapping[str, Environment]) -> Environment:
    """The one that is asked for, the first where none is. Raises NotAllowed."""
    if name is None:
        if not environments:
            raise NotAllowed("No environment is offered to you. Ask an admin of this portal.")
        return next(iter(environments.values()))
    if name not in environments:
        # The same words whether it does not exist or is somebody else's.
        offered = ", ".join(environments) or "none"
        raise NotAllowed(f"There is no environment of that name for you. Offered: {offered}.")
    return environments[name]


class Place(NamedTuple):
    """The place of a session of a kind: the environments, by name, with what the kind makes of
    their limits; the cluster; and the kind, complete."""

    environments: Mapping[str, Environment]
    snapshot: ClusterSnapshot
    kind: Kind


class Hub(Protocol):
    """Questions that a kind may ask the Hub, about the launch of one person."""

    @property
    def tensorboard_resources(self) -> Resources:
        """The resources of a TensorBoard of its own, and the most that may be asked for."""

    async def environments(self) -> dict[str, Environment]:
        """Return what the person may use, by name, in page order."""

    async def home(self) -> str:
        """The person's home. Raises NotAllowed, Unavailable."""

    def roots(self, environment: Environment) -> Sequence[str]:
        """The folders, beside the home, that such a session may write."""

    async def course(
        self,
        kind: Any,  # a CourseSession
        asked: AskedFor,
        snapshot: ClusterSnapshot,
        associations: Sequence[Association] | None,
        *,
        runs: bool,
    ) -> Place:
        """A course's session as it may be launched now. Raises what says why not."""


class AskedFor(Frozen):
    """A person's choice. ``environment`` None: the first that is offered. ``resources`` holds
    what was asked for as its fields that were set."""

    environment: str | None = None
    resources: Resources = Resources()

    def said(self) -> dict[str, Any]:
        """The keys that say something, with typed values; what is the kind's own is left out."""
        named = {"environment": self.environment} if self.environment else {}
        return {**named, **self.resources.said()}


class Kind(Frozen):
    """The base of all kinds; it does what most do.

    ``option``: the key of ``user_options`` that is its own; where that is "kind", the kind is asked
    for by its name. ``prefix``: its servers' names begin with that and a dash; "": no name is its
    own. ``offered``: asked for on the launch page. ``estimated``: it is said when it would start.
    ``named``: only environments whose ``opens`` names it have it.
    ``isolated``: nothing of the site is seen in it but what its environment binds. ``bounded``:
    those who are refused again and again wait.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    option: ClassVar[str] = "kind"
    prefix: ClassVar[str] = ""
    offered: ClassVar[bool] = False
    named: ClassVar[bool] = False
    estimated: ClassVar[bool] = True
    isolated: ClassVar[bool] = False
    bounded: ClassVar[bool] = False

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self | None:
        """Its own of ``user_options``; None: they ask for another kind. Raises InvalidRequest."""
        return cls() if options.get("kind") == cls.name else None

    @property
    def of_course(self) -> str:
        """The course that such a session belongs to; "" for none."""
        return ""

    def beside(self, other: Kind) -> InvalidRequest:
        """Say why it cannot be ``other`` at the same time."""
        return InvalidRequest(f"A session is {self.title} or {other.title}, not both.", self.option)

    def at(self, server: str, owner: type[Kind] | None) -> Kind:
        """The kind of the session on a server of this name, which is ``owner``'s. Raises
        InvalidRequest for a name that is another kind's."""
        if owner is not None:
            raise owner.not_free(server)
        return self

    @classmethod
    def not_free(cls, server: str) -> InvalidRequest:
        """Say why a name that is this kind's cannot be another's."""
        return InvalidRequest(f"The name '{server[:60]}' is kept for {cls.title}.", cls.option)

    @classmethod
    def unfit(cls, environment: Environment) -> str:
        """Say why it does not run in an environment; "" where it does."""
        if not cls.named or cls.name in environment.opens:
            return ""
        return f"'{environment.title}' has no {cls.title}: choose another environment."

    async def place(
        self,
        asked: AskedFor,
        hub: Hub,
        snapshot: ClusterSnapshot,
        associations: Sequence[Association] | None,
        *,
        runs: bool = False,
    ) -> Place:
        """Return where it may run. ``runs``: it runs already, and gets other resources. Raises
        InvalidRequest, NotAllowed, Unavailable."""
        environments = await hub.environments()
        chosen = environments.get(asked.environment or "")
        if chosen is not None and (reason := self.unfit(chosen)):
            raise NotAllowed(reason)
        fitting = {name: one for name, one in environments.items() if not self.unfit(one)}
        return Place(fitting, snapshot, self)

    def options(self, environment: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """The ``user_options`` that ask for the same again; ``chosen``: its resources."""
        return {"environment": environment, **chosen, **self.own()}

    def own(self) -> dict[str, Any]:
        """Its own part of them."""
        return {self.option: self.name}

    def home(self, account: str, home: str) -> str:
        """The home as it is seen in the session; ``home``: the person's on the node."""
        return home

    def variables(self) -> dict[str, str]:
        """Return what the session finds in its environment."""
        return {}

    def script_variables(self, account: str, home: str) -> dict[str, str]:
        """Return what deploy/session.sh is told."""
        return {}
