"""``api/v1/session/kept-clusters``: a user's clusters that outlive their session, for all sessions
of that user, and for the job of a cluster's own scheduler.

A kept cluster is two replica sets: its scheduler, and its workers. It ends with the first.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from portal.errors import Conflict, InvalidRequest, NotAllowed, NotFound
from portal.handlers.base.action import Confirmation
from portal.handlers.base.endpoint import Operation
from portal.handlers.sessions.estimates import running_options
from portal.launch.fields import INHERITED
from portal.launch.kinds import stored_kind
from portal.launch.request import Asked
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.person import Person
from portal.models.session.chosen_id import ID
from portal.models.session.replica_set import ReplicaSet
from portal.models.session.session import SessionRecord, SessionState
from portal.work.replicas.kind import ReplicaKind
from portal.work.replicas.reconciler import servers_of

from .endpoints import ClusterAction, WantedWorkers, check_time
from .kind import ClusterWorker, DaskWorker
from .scheduler import LONGEST_KEPT, DaskScheduler, is_kept, scheduler_id

_LEAST = {"cpus": 1, "gpus": 0, "nodes": 1}  # of a scheduler; its memory is the environment's
_SHARED = ("environment", *INHERITED)  # by the scheduler and the workers
_IDLE = 1800  # seconds: as sites do with idle GPUs, unused nodes are given back
_NO_SUCH = "You have no such kept cluster. It may have ended: make a new one."


class WantedKept(WantedWorkers):
    """Number of workers, and the resources of each, as for a launch; what is not named is as in the
    first request. ``keep``: the time limit of the scheduler's job, as ``time``; "": the
    environment's."""

    keep: Annotated[str, Field(max_length=40, examples=["1-00:00:00"])] = ""


class KeptItem(Frozen):
    """Kept cluster. ``workers``: the number that should run; ``running``: those that do;
    ``problem``: why the last launch was refused, a sentence; ``state``: of its scheduler's job,
    "" while that is being submitted; ``address``: of that job's node, as others reach it, "" while
    it is unknown. Times are Unix seconds."""

    id: str
    environment: str
    workers: int
    running: int
    problem: str
    state: SessionState | None
    address: str
    created_at: float


class SessionCluster(Frozen):
    """Cluster of the session that asks, whose scheduler is in a kernel; as `KeptItem`. ``engine``:
    such as "dask"."""

    id: str
    engine: str
    workers: int
    running: int
    problem: str


class KeptList(Frozen):
    """Kept clusters, and those of the session that asks, oldest first. ``idle``: seconds without a
    client and a task after which one has no workers; ``most``: replicas of a user in all sets."""

    items: tuple[KeptItem, ...]
    session: tuple[SessionCluster, ...]
    idle: int
    most: int


class KeptAction(ClusterAction):
    """Base class: the session or scheduler that asks, and its user's kept clusters."""

    kind: ClassVar[type[ReplicaKind]] = DaskScheduler

    async def asker_of(self, id: str) -> SessionRecord:
        """Return the session that asks, or the scheduler of this cluster. Raises what ``asker``
        does."""
        record = await self.own_record()
        if (record.work, record.server) != (
            DaskScheduler.name,
            DaskScheduler.replica_server(scheduler_id(id), 0),
        ):
            await self.check(record)
        return record

    async def schedulers(self, user: str) -> list[ReplicaSet]:
        """Return the replica sets of the user's schedulers that should run."""
        return [
            each
            for each in await self.table.of_user(user)
            if each.work == DaskScheduler.name and each.replicas
        ]

    async def scheduler(self, user: str, id: str) -> ReplicaSet:
        """Return the replica set of a cluster's scheduler. Raises NotFound."""
        for found in await self.schedulers(user):
            if found.id == scheduler_id(id):
                return found
        raise NotFound(_NO_SUCH)

    async def workers(self, user: str, id: str) -> ReplicaSet | None:
        """Return the replica set of a kept cluster's workers; None: it has none. Raises Conflict if
        the id is another set's."""
        with contextlib.suppress(NotFound):
            found = await self.table.get(user, id)
            session = found.options.get(DaskWorker.option, {}).get("session")
            if found.work != DaskWorker.name or session:
                raise Conflict("You have another replica set with this id.")
            return found
        return None

    async def items(self, user: str, *schedulers: ReplicaSet) -> tuple[KeptItem, ...]:
        """Return the clusters of these schedulers, with what runs."""
        living = await self._living(user)
        sets = {each.id: each for each in await self.table.of_user(user)}
        return tuple(self._item(each, sets, living) for each in schedulers)

    async def of_session(self, record: SessionRecord) -> tuple[SessionCluster, ...]:
        """Return the clusters of a session's kernels, of every engine."""
        items = []
        living = await self._living(record.user)
        for each in await self.table.of_user(record.user):
            engine = stored_kind(each.work).option
            own = each.options.get(engine)
            if each.replicas and isinstance(own, dict) and own.get("session") == record.job_id:
                running = _running(each, living)
                items.append(
                    SessionCluster.like(each, workers=each.replicas, engine=engine, running=running)
                )
        return tuple(items)

    async def _living(self, user: str) -> dict[str, SessionRecord]:
        records, _ = await self.parts.store.sessions.find(user=user, ended=False, limit=1000)
        return {record.server: record for record in records}

    def _item(
        self,
        scheduler: ReplicaSet,
        sets: dict[str, ReplicaSet],
        living: dict[str, SessionRecord],
    ) -> KeptItem:
        id = scheduler.id.removesuffix(scheduler_id(""))
        workers = sets.get(id)
        if workers is not None and not is_kept(workers, [scheduler]):
            workers = None
        record = living.get(servers_of(scheduler)[0])
        node = self.view.snapshot.nodes.get(record.nodes[0]) if record and record.nodes else None
        return KeptItem(
            id=id,
            environment=str(scheduler.options.get("environment", "")),
            workers=workers.replicas if workers else 0,
            running=_running(workers, living) if workers else 0,
            problem=scheduler.problem or (workers.problem if workers else ""),
            state=record.state if record else None,
            address=node.address if node else "",
            created_at=scheduler.created_at,
        )


def _running(workers: ReplicaSet, living: Mapping[str, SessionRecord]) -> int:
    records = (living.get(name) for name in servers_of(workers)[: workers.replicas])
    return sum(record is not None and record.state is SessionState.RUNNING for record in records)


class KeptClusters(KeptAction):
    """Kept clusters of the user whose session asks."""

    path = "session/kept-clusters"
    kind: ClassVar[type[ReplicaKind]] = ClusterWorker

    @Operation("List the kept clusters of a session's user.")
    async def on_get(self) -> KeptList:
        """Use the session's own token only; refused in rooms and without JupyterLab. In a space,
        no cluster is kept: there are those of the session."""
        record = await self.asker()
        schedulers = [] if record.space else await self.schedulers(record.user)
        return KeptList(
            items=await self.items(record.user, *schedulers),
            session=await self.of_session(record),
            idle=_IDLE,
            most=self.replicas.limits.per_user,
        )


class OneKeptCluster(KeptAction):
    """Kept cluster of the user whose session, or whose scheduler, asks."""

    path = "session/kept-clusters/{id}"
    parameters = {"id": ID}

    @Operation("Show a kept cluster.")
    async def on_get(self, id: str) -> KeptItem:
        """Use the session's own token, or that of the cluster's scheduler."""
        user = (await self.asker_of(id)).user
        return (await self.items(user, await self.scheduler(user, id)))[0]

    @Operation(
        "Make a kept cluster, or change its number of workers.", body=WantedKept, errors=(409,)
    )
    async def on_put(self, id: str) -> KeptItem:
        """Use the session's own token, or that of the cluster's scheduler. The scheduler is a job
        in the session's environment, and so is each worker; both are checked like launches, and
        started again when they end, until the cluster is ended. The scheduler counts as one of the
        user's replicas."""
        record = await self.own_record()
        user, body = record.user, self.body
        wanted: dict[str, Any] = body.model_dump(exclude_unset=True)
        workers, keep = wanted.pop("workers"), wanted.pop("keep", "")
        if wanted.pop("engine", "dask") != "dask":
            raise InvalidRequest("'engine' must be 'dask': clusters of Ray are not kept.", "engine")
        what = f"{workers} workers of {record.environment}."
        async with self.audited(AuditAction.SET_REPLICAS, f"kept cluster {id}", user, what):
            await self.asker_of(id)
            if len(id) > LONGEST_KEPT:
                raise InvalidRequest(f"The id must have {LONGEST_KEPT} characters at most.", "id")
            if body.nodes != 1:
                raise InvalidRequest("'nodes' must be 1: a worker is a job on one node.", "nodes")
            most, stored = self.replicas.limits.per_user, await self.workers(user, id)
            try:
                scheduler, new = await self.scheduler(user, id), False
            except NotFound:
                if record.work == DaskScheduler.name:  # it was ended meanwhile
                    raise
                scheduler, new = await self._new_scheduler(record, id, wanted, keep), True
            if workers + 1 > most:
                raise NotAllowed(
                    f"A kept cluster on this site can have {most - 1} workers at most, and its "
                    f"scheduler; not {workers}.",
                    "workers",
                )
            inherited = (stored or scheduler).options
            kept = {k: v for k, v in inherited.items() if stored or k in _SHARED}
            options = {**kept, **wanted}
            options.pop(DaskWorker.option, None)
            own = {DaskWorker.option: {"session": ""}}
            if workers and (stored is None or stored.options != {**options, **own}):
                person = Person(name=user, groups=record.groups)
                check_time((await self.decided(person, options)).request.resources.time)
            if new:
                await self.table.save(scheduler, most)
            if workers or stored:
                found = ReplicaSet(
                    user=user,
                    id=id,
                    work=DaskWorker.name,
                    options={**options, **own},
                    replicas=workers,
                    created_at=time.time(),
                )
                try:
                    await self.table.save(found, most)
                except NotAllowed:
                    if new:
                        await self.table.save(scheduler.model_copy(update={"replicas": 0}), 0)
                    raise
        self.replicas.reconciler.changed.set()
        self.done("")
        return (await self.items(user, scheduler))[0]

    async def _new_scheduler(
        self, record: SessionRecord, id: str, wanted: dict[str, Any], keep: str
    ) -> ReplicaSet:
        """Return the replica set of a new scheduler. Raises what a launch would, Conflict."""
        options = {
            **running_options(record),
            **{key: wanted[key] for key in ("account",) if key in wanted},
            **({"time": keep} if keep else {}),
            **_LEAST,
            "environment": record.environment,
        }
        with contextlib.suppress(NotFound):
            found = await self.table.get(record.user, scheduler_id(id))
            if found.work != DaskScheduler.name or found.replicas == 0:
                raise Conflict("You have another replica set with this id, or it still ends.")
        person = Person(name=record.user, groups=record.groups)
        await self.decided(person, options)
        Asked.parse({**options, DaskScheduler.option: {"id": scheduler_id(id)}})
        return ReplicaSet(
            user=record.user,
            id=scheduler_id(id),
            work=DaskScheduler.name,
            options=options,
            replicas=1,
            created_at=time.time(),
        )

    @Operation("End a kept cluster.", errors=(409,))
    async def on_delete(self, id: str) -> Confirmation:
        """Use the session's own token, or that of the cluster's scheduler. Its scheduler and all
        its workers are stopped."""
        record = await self.own_record()
        user = record.user
        async with self.audited(AuditAction.SET_REPLICAS, f"kept cluster {id}", user, "Ended."):
            await self.asker_of(id)
            scheduler, workers = await self.scheduler(user, id), await self.workers(user, id)
            for each in (workers, scheduler):
                if each is not None:
                    await self.table.save(each.model_copy(update={"replicas": 0}), 0)
        self.replicas.reconciler.changed.set()
        return self.done("The cluster is being stopped.")


ENDPOINTS = (KeptClusters, OneKeptCluster)
