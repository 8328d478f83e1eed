"""An environment: a catalog entry, what a session or kernel runs in."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints, field_validator, model_validator

from . import Frozen
from .resources import MEMORY, TIME, Resources, time_seconds

Name = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$", max_length=63)
]
AbsolutePath = Annotated[str, StringConstraints(pattern=r"^/[^\x00-\x1f\x7f,:]*$", max_length=1024)]
ModuleName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+/-]*$", max_length=128)
]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
VariableValue = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*$", max_length=4096)]

# Variables that decide who the session is or what code its helpers load: an environment file
# cannot set them.
_RESERVED = re.compile(
    r"^(JUPYTERHUB_|APPTAINER|SINGULARITY|SLURM_|PORTAL_|LD_|PYTHONUSERBASE$|PATH$|HOME$|USER$)"
)


class Kind(StrEnum):
    """What lies behind an environment."""

    CONTAINER = "container"
    MODULES = "modules"
    VENV = "venv"


class Bind(Frozen):
    """A host path that a container sees. ``source`` must exist on the node."""

    source: AbsolutePath
    target: AbsolutePath | None = None
    read_only: bool = True

    @field_validator("source", "target")
    @classmethod
    def _no_parent_steps(cls, value: str | None) -> str | None:
        if value and ".." in value.split("/"):
            raise ValueError("a bind may not contain '..'")
        return value


class Environment(Frozen):
    """A catalog entry.

    ``container`` needs ``image`` (path of a SIF or sandbox directory); ``venv`` needs ``path``
    (the virtual environment's directory); ``modules`` needs ``modules``, and takes its server
    from ``path`` (a virtual environment on the nodes).
    """

    name: Name
    title: Annotated[str, StringConstraints(min_length=1, max_length=120)]
    kind: Kind
    description: Annotated[str, StringConstraints(max_length=4000)] = ""
    icon: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]*$", max_length=40)] = ""
    tags: tuple[Annotated[str, StringConstraints(max_length=40)], ...] = ()
    image: AbsolutePath | None = None
    path: AbsolutePath | None = None
    modules: tuple[ModuleName, ...] = ()
    binds: tuple[Bind, ...] = ()
    variables: dict[VariableName, VariableValue] = {}
    groups: tuple[Annotated[str, StringConstraints(max_length=255)], ...] = ()  # empty: everyone
    gpu_types: tuple[Annotated[str, StringConstraints(max_length=64)], ...] = ()  # empty: all
    default: Resources = Resources()
    max_gpus: Annotated[int, Field(ge=0, le=4096)] | None = None
    max_cpus: Annotated[int, Field(ge=1, le=65536)] | None = None
    max_memory: Annotated[str, StringConstraints(pattern=MEMORY)] | None = None
    max_time: Annotated[str, StringConstraints(pattern=TIME)] | None = None
    idle_time: Annotated[str, StringConstraints(pattern=TIME)] | None = None  # None: the site's
    order: int = 100  # smaller stands first on the launch page

    @field_validator("idle_time")
    @classmethod
    def _a_minute_at_least(cls, value: str | None) -> str | None:
        if value is not None and time_seconds(value) < 60:
            raise ValueError("a time shorter than a minute")
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
            Kind.CONTAINER: ("image",),
            Kind.VENV: ("path",),
            Kind.MODULES: ("modules", "path"),
        }
        for field in needs[self.kind]:
            if not getattr(self, field):
                raise ValueError(f"kind '{self.kind}' needs '{field}'")
        return self
