"""Objects of the web service for replica sets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from .reconciler import Reconciler
from .settings import Replicas

if TYPE_CHECKING:
    from portal.assembly import Services


class ReplicaParts:
    """Limits of replica sets, and the loop that keeps them running."""

    def __init__(self, services: Services) -> None:
        self.limits = services.settings.get(Replicas)
        self.reconciler = Reconciler(services.store, services.hub, services.log)
        self.tasks: dict[str, Callable[[], Awaitable[None]]] = {
            "reconciler of replica sets": self.reconciler.run
        }
