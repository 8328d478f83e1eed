"""A notebook's kernel in a job of its own: the notebook's session stays where it is.

A session without GPUs gets a kernel with GPUs. The job opens no port: its program connects to the
session that asked for it (portal_session/job_kernels), and the Hub sees no server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from portal.errors import InvalidRequest, NotAllowed
from portal.launch.kinds.by_id import KindById
from portal.launch.kinds.kind import AskedFor, KindWords, LaunchFacts, Lookup, Place, environment_of
from portal.models.catalog.environment import Environment
from portal.models.session.chosen_id import ID, LONGEST_ID, SHOULD_BE
from portal.models.space import Space
from portal.spaces.job_space import MINE, JobSpace
from portal.spaces.limits import narrowed
from portal.spaces.registry import SPACES, requested_space, space_options

from .settings import JobKernels

OPTION = "kernel"  # the key of ``user_options`` with the id and the kernelspec's name
NAME = r"[A-Za-z0-9._-]{1,100}"
_KEYS = {"id", "name"}
PROGRAM = "portal_session.job_kernels.starter"


class AskedKernel(NamedTuple):
    """Requested kernel. ``space``: that of the session that asks."""

    id: str
    name: str
    space: JobSpace = MINE


class JobKernel(KindById):
    """Kernel ``kernel``, a kernelspec's name, for the session that knows it by ``id``.

    In a space it sees what the session sees, the space's folder and nothing else of its owner,
    since helpers are let into the session, and can run cells there.
    """

    name = "kernel"
    title = "a kernel in a job of its own"
    option = OPTION
    prefix = "kernel"
    noun = "kernel"
    module = PROGRAM
    words = KindWords(
        noun="kernel",
        program="program",
        shut_down="The kernel was shut down.",
        longer="Choose a longer time limit next time.",
    )

    id: str
    kernel: str

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self | None:
        kernel = asked_kernel(options)
        if kernel is None:
            return None
        return cls(id=kernel.id, kernel=kernel.name, space=kernel.space)

    @property
    def id_(self) -> str:
        return self.id

    async def place(self, asked: AskedFor, hub: Lookup, facts: LaunchFacts) -> Place:
        if self.space.name:
            self.check_chosen(asked, self.space.noun)
        place = await super().place(asked, hub, facts)
        if self.space.name and any(e.max_gpus == 0 for e in place.environments.values()):
            raise NotAllowed(
                f"The environment of this {self.space.noun} has no GPUs, so the {self.space.noun} "
                "has no such kernels."
            )
        _check_kernel(self.kernel, environment_of(asked.environment, place.environments))
        # Nothing is awaited after this, or launches at the same moment would not see each other.
        _check_number(hub)
        environments = {
            name: chosen.model_copy(update={"title": f"Kernel of {chosen.title}"[:120]})
            for name, chosen in place.environments.items()
        }
        return place._replace(environments=environments)

    def own(self) -> dict[str, Any]:
        return {OPTION: {"id": self.id, "name": self.kernel, **self.space.own()}}

    @classmethod
    def not_offered(cls, space: Space) -> str:
        if not space.job_kernels:
            return (
                f"The {space.called} does not allow kernels in jobs of their own. Its "
                f"{space.leader} can allow them in the {space.noun}'s settings."
            )
        if not max(space.default.gpus, space.largest.gpus):
            return f"The {space.called} has no GPUs, so it has no kernels with GPUs."
        return ""

    @classmethod
    def check_chosen(cls, asked: AskedFor, noun: str) -> None:
        """Raise NotAllowed for a kernel without GPUs: those would add CPUs to a session's without
        any limit of the space."""
        if asked.given().get("gpus") == 0:
            raise NotAllowed(
                f"In a {noun}, a kernel in a job of its own needs at least one GPU. For work on "
                "CPUs, choose one of the session's kernels."
            )

    @classmethod
    def needs_gpus(cls, asked: AskedFor, space: Space) -> bool:
        return True

    @classmethod
    def narrowed(
        cls, environment: Environment, space: Space, asked: AskedFor, *, gpus: bool
    ) -> Environment:
        return kernel_environment(environment, space, gpus=gpus)

    def variables(self) -> dict[str, str]:
        kernel = json.dumps({"id": self.id, "name": self.kernel})
        return {**super().variables(), "PORTAL_KERNEL": kernel}


def kernel_environment(environment: Environment, space: Space, *, gpus: bool = True) -> Environment:
    """Return ``environment`` as the space allows it to kernels: as to its sessions, with one GPU
    on one node by default. ``gpus`` False: none at all, the budget is used up.

    Where sessions have no GPUs by default, their partition and node features are not those of the
    kernels, which have the ones of the space's maximum, or what the launch finds.
    """
    offered = narrowed(environment, space, gpus=gpus)
    usual: dict[str, Any] = {"gpus": 1, "nodes": 1}
    for name in ("partition", "constraint"):
        own, largest = getattr(space.default, name), getattr(space.largest, name)
        if largest or (own and not space.default.gpus):
            usual[name] = largest
    default = offered.default.model_copy(update=usual)
    return offered.model_copy(update={"default": default})


def asked_kernel(options: Mapping[str, Any]) -> AskedKernel | None:
    """Parse the kernel in ``user_options``; None without one. Raises InvalidRequest."""
    value = options.get(OPTION)
    if value is None or value == "":
        return None
    if not isinstance(value, Mapping) or set(value) - {*space_options()} != _KEYS:
        also = "".join(f" and, in a {of.noun}'s session, the '{of.option}'" for of in SPACES)
        raise InvalidRequest(
            f"'{OPTION}' must be an object with the 'id' and the 'name' of a kernel{also}.",
            OPTION,
        )
    if not _is(ID, value["id"]) or len(value["id"]) > LONGEST_ID:
        raise InvalidRequest(
            f"The id of a kernel must be {SHOULD_BE[0].lower()}{SHOULD_BE[1:]}.",
            OPTION,
        )
    if not _is(NAME, value["name"]):
        raise InvalidRequest(
            "The name of a kernel must have 1 to 100 characters: letters, digits, dots, "
            "underscores and dashes.",
            OPTION,
        )
    try:
        space = requested_space(value)
    except InvalidRequest as error:
        raise InvalidRequest(error.message, OPTION) from None
    return AskedKernel(value["id"], value["name"], space)


def _check_kernel(name: str, environment: Environment) -> None:
    """Raise NotAllowed if it is known that the environment has no kernelspec of this name."""
    names = [kernel.name for kernel in environment.kernels]  # none: not known
    if names and name not in names:
        raise NotAllowed(
            f"'{environment.title}' has no kernel '{name}'. Its kernels: {', '.join(names)}."
        )


def _check_number(hub: Lookup) -> None:
    """Raise NotAllowed if the user may have no further kernel."""
    most = hub.settings(JobKernels).per_user
    if not most:
        raise NotAllowed("Kernels in jobs of their own are not offered on this site.")
    held = sum(other.work == JobKernel.name for other in hub.others())
    if held >= most:
        raise NotAllowed(
            f"You have {held} kernels in jobs of their own; the limit is {most}. Shut one down "
            "first."
        )


def _is(pattern: str, value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None
