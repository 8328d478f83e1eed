"""Environments as the API and the pages show them."""

from __future__ import annotations

from typing import Any

from .. import Frozen
from ..session.resources import Duration, Memory, Resources
from .catalog import Measured, VersionFacts
from .environment import EnvironmentKind, EnvironmentState, Kernel, Server
from .image_job import KernelResult, WorkState


class Limits(Frozen):
    """Upper limits of what may be requested; null: the environment sets no limit."""

    gpus: int | None
    cpus: int | None
    memory: Memory | None
    time: Duration | None


class VersionItem(VersionFacts):
    """Version in a list. ``published``: it is the one that users see now."""

    published: bool = False


class EnvironmentItem(Frozen):
    """Environment. ``versions`` are those of the software in it, as read by its last test;
    ``size`` is that of the image file in bytes. ``source`` is the image's origin, if that is a
    registry. Times are Unix seconds; null: unknown or never.

    Only for those who manage environments: ``groups``, ``courses``, ``image``, ``path``,
    ``modules``; and, if all were requested, ``offered`` and the ``reason`` why not, and ``draft``,
    a version newer than the published one.
    """

    name: str
    title: str
    kind: EnvironmentKind
    state: EnvironmentState
    message: str
    description: str
    icon: str
    tags: tuple[str, ...]
    source: str | None
    digest: str | None
    size: int | None
    server: Server
    kernels: tuple[Kernel, ...]
    starters: tuple[str, ...]
    gpu_types: tuple[str, ...]
    min_driver: str | None
    min_cuda: str | None
    default: Resources
    limits: Limits
    versions: dict[str, str]
    favourite: bool
    last_used: float | None
    tested_at: float | None
    private: bool
    owner: str
    preview: bool
    groups: tuple[str, ...] = ()
    courses: tuple[str, ...] = ()
    image: str | None = None
    path: str | None = None
    modules: tuple[str, ...] = ()
    offered: bool = True
    reason: str = ""
    draft: VersionItem | None = None

    @property
    def visible_to(self) -> tuple[str, ...]:
        """Names of the groups and courses whose members may see it; empty: everyone."""
        return self.groups + self.courses


class TestItem(Frozen):
    """Newest test on one GPU type ("": without GPUs). ``simulated``: the site's GPUs are
    simulated. ``id`` and ``asker`` are only for those who manage environments."""

    __test__ = False  # not a test of pytest's

    gpu_type: str
    state: WorkState
    message: str
    at: float
    gpus: int = 0
    simulated: bool = False
    server_seconds: float | None = None
    kernels: tuple[KernelResult, ...] = ()
    versions: dict[str, str] = {}
    id: int | None = None
    asker: str = ""


class EnvironmentDetail(EnvironmentItem):
    """Environment with everything known about it. ``packages`` are those of the kernel's Python,
    ``added`` those that the portal's build added. ``sessions_now``: number of its sessions that
    run or wait.

    Only for those who manage environments: ``definition`` with ``text`` (its YAML), ``number`` of
    the published version, the newest ``history``, and ``users`` of the sessions.
    """

    distribution: str
    architecture: str
    packages: tuple[str, ...]
    added: tuple[str, ...]
    tests: tuple[TestItem, ...]
    measurements: tuple[Measured, ...]
    sessions_now: int
    users: tuple[str, ...] = ()
    number: int | None = None
    definition: dict[str, Any] = {}
    text: str = ""
    history: tuple[VersionItem, ...] = ()
