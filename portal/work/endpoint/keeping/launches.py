"""Launches and ends of replicas, as replica sets of one."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from portal.errors import NotAllowed
from portal.models.session.replica_set import ReplicaSet
from portal.store import Store
from portal.work.replicas.tables import ReplicaSetTable

from ..gateway import Gateway
from ..kind import ServingReplica
from ..models import Endpoint, EndpointReplica, EndpointVersion
from ..tables import EndpointReplicaTable
from .handover import Launch


class Launches:
    """Sets of replicas. ``reconcile`` has them looked at; ``per_user``: replicas of a user in all
    sets."""

    def __init__(
        self, store: Store, gateway: Gateway, reconcile: Callable[[], None], per_user: int
    ) -> None:
        self._store, self._gateway = store, gateway
        self._reconcile, self._per_user = reconcile, per_user

    async def sets(self) -> dict[str, ReplicaSet]:
        """Return the sets of all endpoints by the id of their replica."""
        every = await self._store.table(ReplicaSetTable).every()
        return {each.id: each for each in every if each.work == ServingReplica.name}

    async def launch(
        self, endpoint: Endpoint, version: EndpointVersion, launch: Launch, twice: int, now: float
    ) -> None:
        """Record a replica and its set, which the reconciler launches. ``twice``: replicas that do
        not count against the owner's limit. Raises NotAllowed for one too many, GatewayAway without
        the gateway's certificate."""
        certificate = await self._gateway.certificate()
        id_ = uuid.uuid4().hex
        options = {**version.resources, "environment": version.environment}
        if endpoint.project:
            options[ServingReplica.option] = {"project": endpoint.project}
        row = EndpointReplica(
            user=endpoint.user,
            id=id_,
            endpoint=endpoint.name,
            project=endpoint.project,
            version=version.number,
            environment=version.environment,
            environment_version=version.environment_version,
            command=version.command,
            health=version.health,
            folder=version.folder,
            gateway=certificate,
            successor_of=launch.successor_of,
            created_at=now,
        )
        wanted = ReplicaSet(
            user=endpoint.user,
            id=id_,
            work=ServingReplica.name,
            options=options,
            replicas=1,
            created_at=now,
        )
        # The Hub asks for the row; without a set, it is ended at the next look.
        table = self._store.table(EndpointReplicaTable)
        await table.add_replica(row)
        try:
            await self._store.table(ReplicaSetTable).save(wanted, self._per_user + twice)
        except NotAllowed:
            await table.remove(row.user, row.id)
            raise
        self._reconcile()

    async def retire(self, found: ReplicaSet) -> None:
        """Have a replica stopped."""
        if found.replicas:
            none = found.model_copy(update={"replicas": 0})
            await self._store.table(ReplicaSetTable).save(none, 0)
            self._reconcile()
