"""A notebook's kernel in a job of its own: the notebook's session stays where it is.

A session without GPUs gets a kernel with GPUs. The job opens no port: its program connects to the
session that asked for it (portal_session/job_kernels), and the Hub sees no server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from ...errors import InvalidRequest, NotAllowed
from ...models.catalog.environment import Environment
from ...models.session.chosen_id import ID, LONGEST_ID, SHOULD_BE
from ..course import OPTION as COURSE
from ..course import course_named
from .kind import AskedFor, Hub, Kind, LaunchFacts, Place, environment_of

OPTION = "kernel"  # the key of ``user_options`` with the id and the kernelspec's name
NAME = r"[A-Za-z0-9._-]{1,100}"
# JupyterHub's names of servers have 30 characters (jupyterhub/slugs.py): of an id, they have the
# first 20 of its digits.
_DIGITS = 20
_SERVER = re.compile(rf"kernel-[0-9a-f]{{8,{_DIGITS}}}")
_KEYS = {"id", "name"}
PROGRAM = "portal_session.job_kernels.starter"


class AskedKernel(NamedTuple):
    """Requested kernel. ``course``: that of the session that asks; "" for none."""

    id: str
    name: str
    course: str = ""


class JobKernel(Kind):
    """Kernel ``kernel``, a kernelspec's name, for the session that knows it by ``id``."""

    name = "kernel"
    title = "a kernel in a job of its own"
    option = OPTION
    prefix = "kernel"
    module = PROGRAM
    serves = False

    id: str
    kernel: str

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self | None:
        kernel = asked_kernel(options)
        return None if kernel is None or kernel.course else cls(id=kernel.id, kernel=kernel.name)

    @classmethod
    def owns(cls, server: str) -> bool:
        return is_kernel(server)

    def at(self, server: str, owner: type[Kind] | None) -> Kind:
        own = server_for(self.id)
        if server != own:
            raise InvalidRequest(
                f"This kernel must have the name '{own}', not '{server[:60]}'.", OPTION
            )
        return self

    async def place(self, asked: AskedFor, hub: Hub, facts: LaunchFacts) -> Place:
        place = await super().place(asked, hub, facts)
        _check_kernel(self.kernel, environment_of(asked.environment, place.environments))
        # Nothing is awaited after this, or launches at the same moment would not see each other.
        _check_number(hub)
        environments = {
            name: chosen.model_copy(update={"title": f"Kernel of {chosen.title}"[:120]})
            for name, chosen in place.environments.items()
        }
        return place._replace(environments=environments)

    def own(self) -> dict[str, Any]:
        return {OPTION: {"id": self.id, "name": self.kernel}}

    def variables(self) -> dict[str, str]:
        kernel = json.dumps({"id": self.id, "name": self.kernel})
        return {**super().variables(), "PORTAL_KERNEL": kernel}


def asked_kernel(options: Mapping[str, Any]) -> AskedKernel | None:
    """Parse the kernel in ``user_options``; None without one. Raises InvalidRequest."""
    value = options.get(OPTION)
    if value is None or value == "":
        return None
    if not isinstance(value, Mapping) or set(value) - {COURSE} != _KEYS:
        raise InvalidRequest(
            f"'{OPTION}' must be an object with the 'id' and the 'name' of a kernel and, in a "
            f"course's session, the '{COURSE}'.",
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
        course = course_named(value.get(COURSE))
    except InvalidRequest as error:
        raise InvalidRequest(error.message, OPTION) from None
    return AskedKernel(value["id"], value["name"], course)


def _check_kernel(name: str, environment: Environment) -> None:
    """Raise NotAllowed if it is known that the environment has no kernelspec of this name."""
    names = [kernel.name for kernel in environment.kernels]  # none: not known
    if names and name not in names:
        raise NotAllowed(
            f"'{environment.title}' has no kernel '{name}'. Its kernels: {', '.join(names)}."
        )


def _check_number(hub: Hub) -> None:
    """Raise NotAllowed if the user may have no further kernel."""
    if not hub.most_job_kernels:
        raise NotAllowed("Kernels in jobs of their own are not offered on this site.")
    if len(hub.job_kernels) >= hub.most_job_kernels:
        raise NotAllowed(
            f"You have {len(hub.job_kernels)} kernels in jobs of their own; the limit is "
            f"{hub.most_job_kernels}. Shut one down first."
        )


def server_for(id_: str) -> str:
    """Return the name of the server of the kernel with this id."""
    return f"{JobKernel.prefix}-{id_.replace('-', '')[:_DIGITS]}"


def is_kernel(server: str) -> bool:
    """Return True if a server of this name is a kernel's."""
    return _SERVER.fullmatch(server) is not None


def _is(pattern: str, value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None
