"""Context that the loops of courses share."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from portal.hubapi import HubApi
from portal.models.audit import AuditedAction, AuditEntry
from portal.models.catalog.environment import Environment
from portal.sessions.view import View
from portal.slurm import Cluster
from portal.slurm.control.control import ClusterControl
from portal.slurm.control.reservations import ReservationControl
from portal.spaces.membership_cache import MembershipCache
from portal.store import Store

from .settings import Courses

SERVICE = "portal"  # the actor of the service's own actions


@dataclass(frozen=True)
class CourseContext:
    """Dependencies of the loops. ``view`` returns the newest view of the cluster; ``note`` writes
    an entry of the audit log; ``copy`` unpacks an environment's image on nodes and yields the
    result of each ("": success, else the reason), None if the site keeps no copies on nodes;
    ``wall``: the system clock, in Unix seconds; ``uptime``: a monotonic clock, for waiting
    times."""

    store: Store
    hub: HubApi
    memberships: MembershipCache
    settings: Courses
    cluster: Cluster
    control: ClusterControl
    reserving: ReservationControl
    view: Callable[[], View | None]
    note: Callable[[AuditEntry], Awaitable[object]]
    log: logging.Logger | logging.LoggerAdapter[Any]
    wall: Callable[[], float]
    copy: Callable[[Environment, Sequence[str]], AsyncIterator[tuple[str, str]]] | None = None
    uptime: Callable[[], float] = time.monotonic

    async def noted(self, action: AuditedAction, course: str, detail: str, **more: Any) -> None:
        """Write an action of the service itself to the audit log."""
        entry = AuditEntry(
            at=self.wall(),
            actor=SERVICE,
            action=action,
            target=f"course {course}",
            detail=detail[:1000],
            **more,
        )
        await self.note(entry)
