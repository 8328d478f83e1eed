"""Base of the kinds of sessions: what runs in the job, and what follows from that.

An object of a kind holds the options that are its own. Everything else asks the kind, and knows
none by name. ``Lookup`` has what a kind may ask of the Hub.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

from traitlets.config import Configurable

from ...errors import InvalidRequest, NotAllowed
from ...models import Frozen
from ...models.catalog.environment import Environment
from ...models.cluster.cluster import Association, ClusterSnapshot
from ...models.session.resources import Resources
from ...models.space import Space
from ...spaces.job_space import MINE, JobSpace
from ...spaces.limits import narrowed
from ..container import SESSION
from ..fields import IN_SPACES

Settings = TypeVar("Settings", bound=Configurable)


def environment_of(name: str | None, environments: Mapping[str, Environment]) -> Environment:
    """Return the environment that is asked for, the first if none is. Raises NotAllowed."""
    if name is None:
        if not environments:
            raise NotAllowed("No environment is available to you. Ask an admin of this portal.")
        return next(iter(environments.values()))
    if name not in environments:
        # The same sentence whether it does not exist or is somebody else's.
        offered = ", ".join(environments) or "none"
        raise NotAllowed(
            f"No environment with this name is available to you. Available: {offered}.",
            "environment",
        )
    return environments[name]


class LaunchFacts(NamedTuple):
    """Facts of a launch: the cluster, and the person's associations; None: Slurm has no
    accounting. ``runs``: the session runs already, and gets other resources."""

    snapshot: ClusterSnapshot
    associations: Sequence[Association] | None
    runs: bool = False


class Place(NamedTuple):
    """Place of a session: the environments by name, with limits as the kind needs them; the
    cluster; and the kind, complete."""

    environments: Mapping[str, Environment]
    snapshot: ClusterSnapshot
    kind: Kind


class OtherLaunch(NamedTuple):
    """Session of the person that waits or runs, or is about to be launched. ``work``: its kind's
    name; ``space``: its name, "" for none; ``options``: its ``user_options``; ``job_id``: ""
    while Slurm has no job."""

    work: str
    space: str
    options: Mapping[str, Any]
    job_id: str = ""


class SlurmLimits(NamedTuple):
    """Values of slurm.conf; None: unknown. ``array_tasks``: the maximum number of tasks of an array
    job; ``kill_wait``: the seconds between SIGTERM and SIGKILL."""

    array_tasks: int | None = None
    kill_wait: int | None = None


class Lookup(Protocol):
    """Facts about the launch of one person. It knows no kind: each asks for what is its own."""

    async def environments(self) -> dict[str, Environment]:
        """Return the environments that the person may use, by name, in page order."""

    async def pinned(self, environment: Environment, version: int) -> Environment:
        """Return an environment that the person may use, with the software of an earlier version.
        Raises NotAllowed if that cannot be used any more, StoreUnavailable."""

    async def home(self) -> str:
        """Return the person's home. Raises NotAllowed, Unavailable."""

    def roots(self, environment: Environment) -> Sequence[str]:
        """Return the folders, beside the home, that such a session may write."""

    def others(self) -> Sequence[OtherLaunch]:
        """Return the person's other sessions."""

    def settings(self, settings: type[Settings]) -> Settings:
        """Return the site's settings of this class."""

    def setting(self, name: str) -> Any:
        """Return the value of a setting of ``c.PortalSpawner``."""

    async def recorded(self, table: type[Any], id_: str) -> Any:
        """Return the person's row with this id in a table of the portal's database, such as
        ``RunTable``; None without one. Raises StoreUnavailable."""

    async def slurm_limits(self) -> SlurmLimits:
        """Return what Slurm allows, as far as it is known."""

    async def in_space(self, kind: Kind, asked: AskedFor, facts: LaunchFacts) -> Place:
        """Return the place of ``kind`` in its space, if it may be launched now. Raises
        what says why not."""


class AskedFor(Frozen):
    """Choice of a person. ``environment`` None: the first that is offered. ``resources``: only the
    fields that were asked for are set."""

    environment: str | None = None
    resources: Resources = Resources()

    def given(self) -> dict[str, Any]:
        """Return the keys that are set, with typed values, without the kind's own."""
        named = {"environment": self.environment} if self.environment else {}
        return {**named, **self.resources.given()}


class KindWords(NamedTuple):
    """Words for sentences about the sessions of a kind."""

    noun: str = "session"
    program: str = "server"  # what its job runs
    shut_down: str = "The server was shut down from inside the session."
    longer: str = "To continue, launch with a longer time limit."


class Kind(Frozen):
    """Base class of all kinds, with what most of them do.

    A kind in a space (``space``) has what that allows to any kind, and says with `not_offered`,
    `check_chosen`, `needs_gpus` and `narrowed` what differs for it.
    """

    name: ClassVar[str]  # as it is stored, and asked for by ``option`` if that is "kind"
    title: ClassVar[str]
    option: ClassVar[str] = "kind"  # key of ``user_options`` that is its own
    prefix: ClassVar[str] = ""  # its servers' names begin with that and a dash; "": none is its own
    offered: ClassVar[bool] = False  # on the launch page
    named: ClassVar[bool] = False  # only environments whose ``opens`` names it have it
    words: ClassVar[KindWords] = KindWords()
    welcomes: ClassVar[bool] = False  # the user's first session opens the site's welcome notebook
    job_kernels: ClassVar[bool] = False  # its notebooks may have kernels in jobs of their own
    programs: ClassVar[bool] = False  # those of its environment can be opened beside it
    module: ClassVar[str] = SESSION  # program of the job, of the session's package
    # Its program is a server, which posts its port. Another has no page; its session is ready once
    # its job runs.
    serves: ClassVar[bool] = True
    array: ClassVar[bool] = False  # its job is an array of tasks, as ``sbatch_options`` say
    # In a space:
    about: ClassVar[str] = ""  # a sentence
    throwaway: ClassVar[bool] = False  # its home is gone when it ends
    early: ClassVar[bool] = False  # it may start before the space does
    shared: ClassVar[bool] = False  # a room: all members are let into it
    graded: ClassVar[bool] = True  # it hands in work, where a space has grades
    # Who starts it, beside the staff: "service": what the service starts; "": nobody else.
    starters: ClassVar[str] = "members"

    space: JobSpace = MINE

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self | None:
        """Parse its own options; None if another kind is asked for. Raises InvalidRequest."""
        return cls() if options.get("kind") == cls.name else None

    @classmethod
    def space_at(cls, server: str) -> str | None:
        """Return the space in the name of a server that can only be of this kind, "" for none;
        None for the name of another one."""
        return None

    @property
    def space_name(self) -> str:
        """Space that such a session belongs to; "" for its user's own."""
        return self.space.name

    @property
    def isolated(self) -> bool:
        """True if nothing of the site is seen in it but what its environment binds."""
        return self.space.isolated

    @property
    def estimated(self) -> bool:
        """True if its expected start is shown."""
        return self.space.estimated or not self.serves

    @property
    def folder(self) -> str:
        """Name of the folder that is its home in a space."""
        return self.space_name

    def beside(self, other: Kind) -> InvalidRequest:
        """Return the error that says why it cannot be ``other`` at the same time."""
        return InvalidRequest(f"A session is {self.title} or {other.title}, not both.", self.option)

    def at(self, server: str, owner: type[Kind] | None) -> Kind:
        """Return the kind of the session on a server of this name, which is ``owner``'s. Raises
        InvalidRequest for a name that is another kind's."""
        if owner is not None:
            raise owner.not_free(server)
        return self

    @classmethod
    def not_free(cls, server: str) -> InvalidRequest:
        """Return the error that says why a name of this kind cannot be another's."""
        return InvalidRequest(f"The name '{server[:60]}' is reserved for {cls.title}.", cls.option)

    @classmethod
    def unfit(cls, environment: Environment) -> str:
        """Return why it does not run in an environment; "" if it does."""
        if not cls.named or cls.name in environment.opens:
            return ""
        return f"'{environment.title}' has no {cls.title}. Choose another environment."

    async def place(self, asked: AskedFor, hub: Lookup, facts: LaunchFacts) -> Place:
        """Return where it may run. Raises InvalidRequest, NotAllowed, Unavailable."""
        if self.space.name:
            return await hub.in_space(self, asked, facts)
        environments = await hub.environments()
        chosen = environments.get(asked.environment or "")
        if chosen is not None and (reason := self.unfit(chosen)):
            raise NotAllowed(reason)
        fitting = {
            name: environment
            for name, environment in environments.items()
            if not self.unfit(environment)
        }
        return Place(fitting, facts.snapshot, self)

    @classmethod
    def not_offered(cls, space: Space) -> str:
        """Return why the space has no such sessions; "" if it has."""
        return ""

    @classmethod
    def check_chosen(cls, asked: AskedFor, noun: str) -> None:
        """Raise NotAllowed for resources that such a job of a space, which is called
        ``noun``, never has."""

    @classmethod
    def needs_gpus(cls, asked: AskedFor, space: Space) -> bool:
        """Return True if it does not start without GPUs, as once the space's budget is used up."""
        return False

    @classmethod
    def narrowed(
        cls, environment: Environment, space: Space, asked: AskedFor, *, gpus: bool
    ) -> Environment:
        """Return ``environment`` as the space allows it to such sessions; see ``narrowed`` of
        portal/spaces/limits.py."""
        return narrowed(environment, space, gpus=gpus)

    def options(self, environment: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return the ``user_options`` for the same session again; ``chosen``: its resources. In a
        space, account, partition and reservation are others at the next meeting."""
        own, allowed = not self.space.name, IN_SPACES | self.space.more_choices
        choices = {key: value for key, value in chosen.items() if own or key in allowed}
        return {"environment": environment, **choices, **self.own()}

    def own(self) -> dict[str, Any]:
        """Return its own part of the ``user_options``."""
        return {self.option: self.name}

    def home(self, account: str, home: str) -> str:
        """Return the home as it is seen in the session; ``home``: the person's on the node."""
        return self.space.home(account, home)

    def within(self, seconds: int | None) -> Self:
        """Return the kind of a job with this time limit; None: the partition's."""
        return self

    def variables(self) -> dict[str, str]:
        """Return the session's own environment variables."""
        return self.space.variables(self.name)

    def command(self) -> Sequence[str]:
        """Return the argv of its job, in which "{python}" is the environment's interpreter; empty:
        ``module`` of the session's package. Only of kinds whose program is no server."""
        return ()

    def sbatch_options(self) -> Sequence[str]:
        """Return sbatch's options that are its own, each one argument (``--key=value``)."""
        return ()

    def script_variables(self, account: str, home: str) -> dict[str, str]:
        """Return the variables for deploy/session.sh."""
        folder = "" if self.throwaway else self.folder
        return self.space.script_variables(account, home, folder)
