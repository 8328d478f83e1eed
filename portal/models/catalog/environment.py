"""Environments: entries of the catalog, in which sessions and kernels run."""

from __future__ import annotations

import hashlib
import json
import re
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints, field_validator, model_validator

from .. import Frozen
from ..session.resources import Duration, Memory, Resources

Name = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$", max_length=63)
]
AbsolutePath = Annotated[str, StringConstraints(pattern=r"^/[^\x00-\x1f\x7f,:]*$", max_length=1024)]
ModuleName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+/-]*$", max_length=128)
]
StarterName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}\.(ipynb|py)$")]
_Group = Annotated[str, StringConstraints(min_length=1, max_length=255)]
VERSION = r"^[0-9]+(\.[0-9]+){0,3}$"
MAX_DESCRIPTION = 20_000  # characters of Markdown
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
VariableValue = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*$", max_length=4096)]

# Variables that decide who the session is or what code its helpers load: an environment file
# cannot set them.
_RESERVED = re.compile(
    r"^(JUPYTERHUB_|APPTAINER|SINGULARITY|SLURM_|PORTAL_|LD_|PYTHONUSERBASE$|PATH$|HOME$|USER$)"
)


class EnvironmentKind(StrEnum):
    """Kind of software behind an environment."""

    CONTAINER = "container"
    MODULES = "modules"
    VENV = "venv"


class Server(StrEnum):
    """Location of a container environment's notebook server: in the container, or beside it, from
    the portal's own environment on the node, with only the kernels in the container."""

    INSIDE = "inside"
    BESIDE = "beside"


class EnvironmentState(StrEnum):
    """State of a version of an environment. A file of the catalog is READY, DEPRECATED or
    WITHDRAWN; the other states are those of unpublished versions."""

    DRAFT = "draft"
    BUILDING = "building"
    TESTING = "testing"
    READY = "ready"
    FAILED = "failed"
    DEPRECATED = "deprecated"
    WITHDRAWN = "withdrawn"


# The states in which sessions may be started.
USABLE = frozenset({EnvironmentState.READY, EnvironmentState.DEPRECATED})


class Kernel(Frozen):
    """Kernel of an environment. ``name`` is Jupyter's kernelspec name."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,63}$")]
    title: Annotated[str, StringConstraints(min_length=1, max_length=80)]
    language: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+#._-]{1,40}$")]


class Bind(Frozen):
    """Bind mount of a host path into a container. ``source`` must exist on the node."""

    source: AbsolutePath
    target: AbsolutePath | None = None
    read_only: bool = True

    @field_validator("source", "target")
    @classmethod
    def _no_parent_steps(cls, value: str | None) -> str | None:
        if value and ".." in value.split("/"):
            raise ValueError("a bind mount may not contain '..'")
        return value


_SOFTWARE = ("kind", "source", "image", "digest", "server", "python", "kernels", "path", "modules")


class Environment(Frozen):
    """Entry of the catalog; a YAML file of the catalog has these keys.

    ``container`` needs ``image`` (path of a SIF or sandbox directory) or ``source`` (what to build
    it from: ``docker://…``, a SIF, a definition file); ``venv`` needs ``path`` (the virtual
    environment's directory); ``modules`` needs ``modules``, and runs its server from ``path`` (a
    virtual environment on the nodes).

    ``digest`` is that of ``source`` when the image was built. ``python`` is the Python in the
    container that has the session's server. ``private``: only ``owner`` sees it.
    """

    name: Name
    title: Annotated[str, StringConstraints(min_length=1, max_length=120)]
    kind: EnvironmentKind
    description: Annotated[str, StringConstraints(max_length=MAX_DESCRIPTION)] = ""  # Markdown
    icon: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]*$", max_length=40)] = ""
    tags: tuple[Annotated[str, StringConstraints(max_length=40)], ...] = ()
    source: Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None = None
    image: AbsolutePath | None = None
    digest: Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    server: Server = Server.INSIDE
    python: AbsolutePath | None = None
    kernels: tuple[Kernel, ...] = ()  # empty: those that the server finds
    starters: tuple[StarterName, ...] = ()  # notebooks of deploy/environments/starters
    path: AbsolutePath | None = None
    modules: tuple[ModuleName, ...] = ()
    # Applications that it can open beside JupyterLab, by the names in portal/launch/kinds.
    opens: tuple[Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,40}$")], ...] = ()
    binds: tuple[Bind, ...] = ()
    variables: dict[VariableName, VariableValue] = {}
    # Who may see it (Audience).
    groups: tuple[Annotated[str, StringConstraints(max_length=255)], ...] = ()
    courses: tuple[Name, ...] = ()
    private: bool = False
    owner: Annotated[str, StringConstraints(max_length=255)] = ""
    state: EnvironmentState = EnvironmentState.READY
    message: Annotated[str, StringConstraints(max_length=1000)] = ""  # why deprecated, withdrawn
    gpu_types: tuple[Annotated[str, StringConstraints(max_length=64)], ...] = ()  # empty: all
    # What the software needs of a node, where that is known: "535.104", "12.4".
    min_driver: Annotated[str, StringConstraints(pattern=VERSION)] | None = None
    min_cuda: Annotated[str, StringConstraints(pattern=VERSION)] | None = None
    default: Resources = Resources()
    max_gpus: Annotated[int, Field(ge=0, le=4096)] | None = None
    max_cpus: Annotated[int, Field(ge=1, le=65536)] | None = None
    max_memory: Memory | None = None
    max_time: Duration | None = None
    idle_time: Duration | None = None  # None: the site's
    order: int = 100  # smaller stands first on the launch page

    @field_validator("idle_time")
    @classmethod
    def _a_minute_at_least(cls, value: Duration | None) -> Duration | None:
        if value is not None and value < 60:
            raise ValueError("must be at least one minute")
        return value

    @field_validator("variables")
    @classmethod
    def _no_reserved_variables(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if _RESERVED.match(name):
                raise ValueError(f"{name} is set by the portal; an environment cannot set it")
        return value

    @model_validator(mode="after")
    def _has_its_source(self) -> Environment:
        needs = {
            EnvironmentKind.CONTAINER: ("image",),
            EnvironmentKind.VENV: ("path",),
            EnvironmentKind.MODULES: ("modules", "path"),
        }
        for field in needs[self.kind]:
            if not getattr(self, field) and not (field == "image" and self.source):
                raise ValueError(f"kind '{self.kind}' needs '{field}'")
        if self.private and not self.owner:
            raise ValueError("a private environment needs 'owner'")
        return self

    @property
    def visible_to(self) -> tuple[str, ...]:
        """Names of the groups and spaces whose members may see it; empty: everyone."""
        return (*self.groups, *self.courses)

    @property
    def visible_groups(self) -> frozenset[str]:
        """Hub groups of those who may see it; empty: everyone."""
        return frozenset((*self.groups, *(f"course-{name}" for name in self.courses)))

    def with_software(self, other: Environment) -> Environment:
        """Return this environment with the software of ``other``, such as an earlier version."""
        return self.model_copy(update={field: getattr(other, field) for field in _SOFTWARE})

    @property
    def fingerprint(self) -> str:
        """Identifier of the software, for which a test's result holds: independent of title,
        groups and resources. 32 hexadecimal digits."""
        parts = [self.kind, self.image, self.digest, self.path, self.modules, self.server]
        # A test of a private environment says nothing of the same image in the catalog: it ran as
        # the owner, who could have forged its result.
        owner = [self.owner] if self.private else []
        text = json.dumps([*parts, self.python, *owner], default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class Audience(Frozen):
    """Groups and courses whose members see it; both empty: everyone. null: as the version says."""

    groups: Annotated[tuple[_Group, ...] | None, Field(max_length=200)] = None
    courses: Annotated[tuple[Name, ...] | None, Field(max_length=200)] = None

    def values(self) -> dict[str, list[str]]:
        """Return the fields of an environment that it sets."""
        return self.model_dump(mode="json", exclude_none=True)


EVERYONE = Audience(groups=(), courses=())


class OfferedEnvironment(Environment):
    """Environment as offered for launch. ``refusals``: GPU types of the cluster that it may not
    have, each with a sentence why."""

    refusals: dict[str, str] = {}


def refusals_of(environment: Environment) -> dict[str, str]:
    """Return why it may not have GPUs of some types, by type; empty if it is not narrowed."""
    return environment.refusals if isinstance(environment, OfferedEnvironment) else {}
