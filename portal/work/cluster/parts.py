"""Objects of the web service for clusters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from portal.periodic import Periodic
from portal.work.replicas.parts import ReplicaParts
from portal.work.replicas.tables import ReplicaSetTable

from .kind import session_of
from .scheduler import is_kept

if TYPE_CHECKING:
    from portal.assembly import Services

_EVERY = 10.0  # seconds


class ClusterParts:
    """Loop that ends the clusters whose session is over: its kernel, with the scheduler, is too.
    Kept ones end with their scheduler's replica set."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.tasks: dict[str, Callable[[], Awaitable[None]]] = {
            "end of clusters": Periodic(
                "The end of clusters whose session is over",
                self.end_forsaken,
                _EVERY,
                services.log,
            ).run
        }

    async def on_sessions_page(self, person: str) -> tuple[str, dict[str, Any]]:
        """Return the template of a part of the page of sessions, and its variables."""
        return "sessions_clusters.html", {}

    async def end_forsaken(self) -> None:
        """Want no worker of clusters without a session, or without a scheduler if they are kept.
        Raises StoreUnavailable."""
        table = self._services.store.table(ReplicaSetTable)
        sets = await table.every()
        clusters = [
            found
            for found in sets
            if session_of(found) is not None and found.replicas and not is_kept(found, sets)
        ]
        if not clusters:
            return
        living = {
            (record.user, record.job_id) for record in await self._services.store.sessions.living()
        }
        for cluster in clusters:
            if (cluster.user, session_of(cluster)) not in living:
                await table.save(cluster.model_copy(update={"replicas": 0}), 0)
                self._services.parts_for(ReplicaParts).reconciler.changed.set()
