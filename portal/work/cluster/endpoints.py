"""``api/v1/session/clusters``: the workers of a session's clusters, for the session that asks.

A user's clusters are replica sets, too, of the work "dask-worker" or "ray-worker"
(``api/v1/replica-sets``).
"""

from __future__ import annotations

import time
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from portal.errors import Conflict, InvalidRequest, NotAllowed, NotFound
from portal.handlers.base.action import Confirmation
from portal.handlers.base.endpoint import Operation
from portal.handlers.base.own_session import OwnSession
from portal.handlers.sessions.estimates import running_options
from portal.handlers.sessions.job_estimates import JobEstimates
from portal.launch.kinds import kind_of
from portal.launch.request import AskedResources
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.person import Person
from portal.models.session.chosen_id import ID
from portal.models.session.replica_set import MOST_REPLICAS, ReplicaSet
from portal.models.session.resources import time_text
from portal.models.session.session import SessionRecord
from portal.spaces.registry import job_space
from portal.work.replicas.kind import ReplicaKind
from portal.work.replicas.parts import ReplicaParts
from portal.work.replicas.tables import ReplicaSetTable

from .kind import KINDS, ClusterWorker, session_of

_SHORTEST = 120  # seconds
_NO_SUCH = "This session has no such cluster."


class WantedWorkers(AskedResources):
    """Number of workers, and the resources of each, as for a launch; what is not named is as in the
    first request, or the environment's."""

    workers: Annotated[int, Field(ge=0, le=MOST_REPLICAS, strict=True, examples=[8])]
    engine: Annotated[Literal["dask", "ray"], Field(examples=["ray"])] = "dask"


class ClusterItem(Frozen):
    """Cluster. ``workers``: the number that should run; ``problem``: why the last launch of one was
    refused, a sentence."""

    id: str
    workers: int
    problem: str


class OfferedClusters(Frozen):
    """Clusters that the site offers: ``most``: workers of a user in all of them."""

    most: int


class ClusterAction(OwnSession, JobEstimates):
    """Base class: the session that asks, and its clusters, which are of its space."""

    kind: ClassVar[type[ReplicaKind]] = ClusterWorker

    async def asker(self) -> SessionRecord:
        """Return the session that asks. Raises NotAllowed for one without clusters, Unavailable."""
        record = await self.own_record()
        await self.check(record)
        return record

    async def check(self, record: SessionRecord) -> None:
        """Raise NotAllowed if the session may have no cluster."""
        kind = kind_of(record)
        if record.space:
            self.stored = await self.parts.memberships.space(record.space)
            if reason := self.kind.not_offered(self.stored.space):
                raise NotAllowed(reason)
        if not kind.job_kernels:
            raise NotAllowed(f"Clusters are not offered in {kind.title}.")
        if not self.replicas.limits.per_user:
            raise NotAllowed("Clusters are not offered on this site (c.Replicas.per_user).")

    @property
    def replicas(self) -> ReplicaParts:
        """Objects for replica sets."""
        return self.parts_for(ReplicaParts)

    @property
    def table(self) -> ReplicaSetTable:
        """Table of replica sets."""
        return self.parts.store.table(ReplicaSetTable)

    async def cluster(self, id: str, record: SessionRecord) -> ReplicaSet:
        """Return a cluster of the session that asks. Raises NotFound."""
        found = await self.table.get(record.user, id)
        if session_of(found) != record.job_id:
            raise NotFound(_NO_SUCH)
        return found

    async def stored_options(self, id: str, record: SessionRecord) -> dict[str, Any] | None:
        """Return the options of a cluster of the session that asks; None without one. Raises
        Conflict if the id is another's."""
        try:
            return (await self.cluster(id, record)).options
        except NotFound as error:
            if error.message == _NO_SUCH:
                raise Conflict("You have another replica set with this id.") from None
            return None


class OwnClusters(ClusterAction):
    """Clusters of the session that asks."""

    path = "session/clusters"

    @Operation("Show how many workers of clusters are offered.")
    async def on_get(self) -> OfferedClusters:
        """Use the session's own token only; refused in rooms and without JupyterLab."""
        await self.asker()
        return OfferedClusters(most=self.replicas.limits.per_user)


class OneCluster(ClusterAction):
    """Cluster of the session that asks, by its id."""

    path = "session/clusters/{id}"
    parameters = {"id": ID}

    @Operation("Show a cluster of a session.")
    async def on_get(self, id: str) -> ClusterItem:
        """Use the session's own token only."""
        return _item(await self.cluster(id, await self.asker()))

    @Operation(
        "Make a cluster, or change its number of workers.", body=WantedWorkers, errors=(409,)
    )
    async def on_put(self, id: str) -> ClusterItem:
        """Use the session's own token only. Each worker is a job in the session's environment,
        checked like a launch, which the portal starts again when it ends, until the session has
        ended."""
        record = await self.own_record()
        wanted: dict[str, Any] = self.body.model_dump(exclude_unset=True)
        workers = wanted.pop("workers")
        engine = wanted.pop("engine", "dask")
        (kind,) = (kind for kind in KINDS if kind.option == engine)
        what = f"{workers} workers of {record.environment}."
        async with self.audited(AuditAction.SET_REPLICAS, f"cluster {id}", record.user, what):
            await self.check(record)
            if self.body.nodes != 1:
                raise InvalidRequest("'nodes' must be 1: a worker is a job on one node.", "nodes")
            most = self.replicas.limits.per_user
            if workers > most:
                raise NotAllowed(
                    f"A cluster on this site can have {most} workers at most, not {workers}.",
                    "workers",
                )
            options = {**running_options(record), **wanted, "environment": record.environment}
            of_space = job_space(self.stored.space).own() if self.stored else {}
            own = {kind.option: {"session": record.job_id, **of_space}}
            stored = await self.stored_options(id, record)
            if stored is not None and kind.option not in stored:
                raise Conflict("The 'engine' of a cluster cannot be changed. Make a new one.")
            if stored != {**options, **own}:
                person = Person(name=record.user, groups=record.groups)
                check_time((await self.decided(person, options)).request.resources.time)
            cluster = ReplicaSet(
                user=record.user,
                id=id,
                work=kind.name,
                options={**options, **own},
                replicas=workers,
                created_at=time.time(),
            )
            saved = await self.table.save(cluster, most)
        self.replicas.reconciler.changed.set()
        self.done("")
        return _item(saved)

    @Operation("End a cluster of a session.", errors=(409,))
    async def on_delete(self, id: str) -> Confirmation:
        """Use the session's own token only. All its workers are stopped."""
        record = await self.own_record()
        async with self.audited(AuditAction.SET_REPLICAS, f"cluster {id}", record.user, "Ended."):
            await self.check(record)
            found = await self.cluster(id, record)
            await self.table.save(found.model_copy(update={"replicas": 0}), 0)
        self.replicas.reconciler.changed.set()
        return self.done("The workers are being stopped.")


def check_time(seconds: int | None) -> None:
    """Raise InvalidRequest for a time limit in which a worker would hardly work: it ends before its
    job does, and what ends soon counts as failed."""
    if seconds is not None and seconds < _SHORTEST:
        raise InvalidRequest(
            f"'time' must be {time_text(_SHORTEST)} or more for a worker. One that ends before its "
            "time limit is replaced by another.",
            "time",
        )


def _item(cluster: ReplicaSet) -> ClusterItem:
    return ClusterItem(id=cluster.id, workers=cluster.replicas, problem=cluster.problem)


ENDPOINTS = (OwnClusters, OneCluster)
