"""What the loops of courses work with."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from portal.hubapi import HubApi
from portal.models.audit import AuditEntry
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.session.session import SessionRecord
from portal.slurm import Cluster
from portal.slurm.control.control import ClusterControl
from portal.slurm.control.reservations import Reserving
from portal.store import Store

from .roster.membership_cache import CourseBook
from .settings import Courses

SERVICE = "portal"  # the actor of what the service does by itself


class View(Protocol):
    """What is needed of the dashboard's view."""

    @property
    def snapshot(self) -> ClusterSnapshot: ...
    @property
    def sessions(self) -> Mapping[str, SessionRecord]: ...


@dataclass(frozen=True)
class Around:
    """``view`` gives the newest view of the cluster; ``note`` writes a line of the audit log;
    ``copy`` unpacks an environment's image on nodes and tells of each how it went ("" well, else
    why not), None where the site has no copies on nodes; ``wall``: the machine's clock, in Unix
    seconds; ``uptime``: one that nobody sets, by which waits are counted."""

    store: Store
    hub: HubApi
    book: CourseBook
    settings: Courses
    cluster: Cluster
    control: ClusterControl
    reserving: Reserving
    view: Callable[[], View | None]
    note: Callable[[AuditEntry], Awaitable[None]]
    log: logging.Logger | logging.LoggerAdapter[Any]
    wall: Callable[[], float]
    copy: Callable[[Environment, Sequence[str]], AsyncIterator[tuple[str, str]]] | None = None
    uptime: Callable[[], float] = time.monotonic

    async def noted(self, action: str, course: str, detail: str, **more: Any) -> None:
        """Write what the service did by itself into the audit log."""
        entry = AuditEntry(
            at=self.wall(),
            actor=SERVICE,
            action=action,
            target=f"course {course}",
            detail=detail[:1000],
            **more,
        )
        await self.note(entry)
