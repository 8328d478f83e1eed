"""Keeper: the loop that launches, tries, drains and retires the replicas of endpoints.

What should be is in the database, and what is there is in the Hub's records of sessions and in the
gateway's state. What the keeper remembers only makes it slower after a restart of the service.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from portal.dashboard import ClusterView
from portal.errors import NotAllowed, PortalError, StoreUnavailable
from portal.models.cluster.cluster import Job
from portal.models.session.replica_set import ReplicaSet
from portal.models.session.session import SessionRecord
from portal.periodic import Periodic
from portal.store import Store
from portal.work.replicas.reconciler import pause
from portal.work.replicas.tables import ReplicaSetTable

from .gateway import Gateway, GatewayAway, GatewayState
from .handover import Launch, Replica, ReplicaState, steps
from .kind import ServingReplica
from .models import Endpoint, EndpointReplica, EndpointVersion
from .notices import EndpointNotices
from .replicas import expected_at, measured, overlap, seen, server_of
from .routing import weights
from .scaling import Bounds, Scale, distributed
from .tables import EndpointReplicaTable, EndpointTable, EndpointVersionTable

_EVERY = 2.0  # seconds
_TRIES = 3  # replicas of a version in a row that failed, after which none is launched
_EXAMPLES = 5  # of one replica that failed, after which it has
_AGAIN = 5.0  # seconds until an example is sent again
_SOUND = 600.0  # seconds: a replica that has answered for so long has not failed
_ACTIVE = 60.0  # seconds between two writings of the last request's time
_AWAY = 5.0  # seconds until a gateway that does not answer is asked again


class Seen(NamedTuple):
    """Facts about one endpoint at a moment: rows of its replicas that have not ended, and records
    of their sessions by the id of the replica."""

    endpoint: Endpoint
    versions: dict[int, EndpointVersion]
    rows: Sequence[EndpointReplica]
    records: Mapping[str, SessionRecord]
    replicas: Sequence[Replica]
    load: float
    wait: float


class Keeper:
    """Loop of the service for all endpoints. An event ``changed`` makes it look at once.
    ``reconcile`` has the replica sets looked at; ``per_user``: replicas of a user in all sets."""

    def __init__(
        self,
        store: Store,
        gateway: Gateway,
        reconcile: Callable[[], None],
        view: Callable[[], ClusterView | None],
        notices: EndpointNotices,
        per_user: int,
        log: logging.Logger,
    ) -> None:
        self._store, self._gateway, self._reconcile = store, gateway, reconcile
        self._view, self._notices, self._per_user, self._log = view, notices, per_user, log
        self._scales: dict[str, Scale] = {}
        self._totals: dict[str, int] = {}
        self._requests: dict[str, int] = {}
        self._active: dict[str, float] = {}
        self._failed: dict[tuple[str, int], float] = {}  # time of a version's last failure
        self._examples: dict[str, tuple[int, float]] = {}  # failures of a replica's, the last one
        self._trying: dict[str, asyncio.Task[None]] = {}
        self._woken: set[str] = set()  # by their owners
        self._told: dict[str, Any] = {}  # routes by endpoint
        self.changed = asyncio.Event()

    async def run(self) -> None:
        """Keep all endpoints until cancelled."""
        if self._gateway.offered:
            await Periodic(
                "The keeper of endpoints",
                lambda: self.keep(time.time()),
                _EVERY,
                self._log,
                wake=self.changed,
            ).run()

    def wake(self, name: str) -> None:
        """Have an endpoint that sleeps launch a replica, as a request would."""
        self._woken.add(name)
        self.changed.set()

    async def listen(self) -> None:
        """Look at once when a request waits at a model without replicas, until cancelled."""
        known = 0
        while self._gateway.offered:
            now = await self._gateway.changes(known)
            if now is None:
                await asyncio.sleep(_AWAY)
            elif now != known:
                known = now
                self.changed.set()

    async def keep(self, now: float) -> None:
        """Look at all endpoints at ``now`` (Unix seconds), and do what is to be done. Raises
        Unavailable: the database, or the gateway's directory."""
        if self._view() is None:
            return  # the last routes hold until Slurm's nodes are known
        endpoints = await self._store.table(EndpointTable).every()
        rows = await self._store.table(EndpointReplicaTable).living()
        sets = {each.id: each for each in await self._sets()}
        state = await self._gateway.state() if endpoints else None
        records = await self._records(rows)
        owners = {endpoint.name: endpoint.user for endpoint in endpoints}
        known = {row.id for row in rows if owners.get(row.endpoint) == row.user}
        for endpoint in endpoints:
            own = [row for row in rows if row.endpoint == endpoint.name and row.id in known]
            try:
                facts = await self._look(endpoint, own, records, sets, state, now)
                await self._step(facts, sets, state, now)
                self._told[endpoint.name] = self._routes(facts, now)
            except StoreUnavailable:
                raise
            except Exception:  # one endpoint must not stop those of others
                self._log.exception("The endpoint %s of %s", endpoint.name, endpoint.user)
        for row in rows:
            if row.id not in known:  # its endpoint was deleted
                await self._store.table(EndpointReplicaTable).remove(row.user, row.id)
        for each in sets.values():
            if each.id not in known:
                await self._retire(each)
        for memory in (self._scales, self._totals, self._requests, self._active, self._told):
            for name in memory.keys() - owners.keys():
                del memory[name]
        if len(self._told) == len(owners):  # else the last routes hold
            await self._gateway.write(self._told)

    async def _sets(self) -> list[ReplicaSet]:
        every = await self._store.table(ReplicaSetTable).every()
        return [each for each in every if each.work == ServingReplica.name]

    async def _records(self, rows: Sequence[EndpointReplica]) -> dict[str, SessionRecord]:
        """Return the records of replicas' sessions by the id of the replica."""
        if not rows:
            return {}
        sessions = self._store.sessions
        living = {(each.user, each.server): each for each in await sessions.living()}
        found = {}
        for row in rows:
            record = living.get((row.user, server_of(row)))
            if record is None:
                ended, _ = await sessions.find(user=row.user, server=server_of(row), limit=1)
                record = ended[0] if ended else None
            if record is not None:
                found[row.id] = record
        return found

    # -- what is there -------------------------------------------------------------------------

    async def _look(
        self,
        endpoint: Endpoint,
        rows: Sequence[EndpointReplica],
        records: Mapping[str, SessionRecord],
        sets: Mapping[str, ReplicaSet],
        state: GatewayState | None,
        now: float,
    ) -> Seen:
        """Write into the rows of replicas what their sessions tell; return what is there."""
        name = endpoint.name
        found = await self._store.table(EndpointVersionTable).of_endpoint(name)
        versions = {version.number: version for version in found}
        living = []
        for row in rows:
            row = await self._noted(row, records.get(row.id), now)
            if self._is_over(row, records.get(row.id), sets):
                await self._end(row, records, rows, versions, sets, now)
            else:
                living.append(row)
                await self._forgive(row, versions, now)
        past = await self._store.table(EndpointReplicaTable).of_endpoint(name)
        replicas = [
            seen(
                row,
                records.get(row.id),
                self._job(row),
                state.in_flight(name, row.id) if state else None,
            )
            for row in living
        ]
        return Seen(endpoint, versions, living, records, replicas, *measured(past))

    async def _noted(
        self, row: EndpointReplica, record: SessionRecord | None, now: float
    ) -> EndpointReplica:
        told: dict[str, Any] = {}
        if record is not None:
            if record.job_id and not row.job_id:
                told["job_id"] = record.job_id
            if record.started_at is not None:
                if row.waited is None:
                    told["waited"] = max(0.0, record.started_at - record.submitted_at)
                if row.ready_at is not None and row.loaded is None:
                    told["loaded"] = max(0.0, row.ready_at - record.started_at)
        if not told:
            return row
        await self._store.table(EndpointReplicaTable).change(row.user, row.id, **told)
        return row.model_copy(update=told)

    def _is_over(
        self, row: EndpointReplica, record: SessionRecord | None, sets: Mapping[str, ReplicaSet]
    ) -> bool:
        if record is not None:
            return seen(row, record).state is ReplicaState.ENDED
        return row.id not in sets  # it was never launched, and will not be

    async def _end(
        self,
        row: EndpointReplica,
        records: Mapping[str, SessionRecord],
        rows: Sequence[EndpointReplica],
        versions: dict[int, EndpointVersion],
        sets: Mapping[str, ReplicaSet],
        now: float,
    ) -> None:
        """Record the end of a replica, and whether its version failed."""
        record = records.get(row.id)
        ended = (record.ended_at if record is not None else None) or now
        both = overlap(row, records, ended, rows)
        table = self._store.table(EndpointReplicaTable)
        await table.change(row.user, row.id, ended_at=ended, overlap=both)
        if row.id in sets:
            await self._retire(sets[row.id])
        self._examples.pop(row.id, None)
        short = row.ready_at is None or ended - row.ready_at < _SOUND
        if record is not None and row.draining_at is None and short:
            await self._fail(row, versions, record.ending_message or "Its job has ended.", now)

    async def _fail(
        self,
        row: EndpointReplica,
        versions: dict[int, EndpointVersion],
        words: str,
        now: float,
    ) -> None:
        version = versions.get(row.version)
        if version is not None:
            self._failed[row.endpoint, row.version] = now
            told = {"failures": version.failures + 1, "problem": words}
            versions[row.version] = version.model_copy(update=told)
            table = self._store.table(EndpointVersionTable)
            await table.change(row.endpoint, row.version, **told)

    async def _forgive(
        self, row: EndpointReplica, versions: Mapping[int, EndpointVersion], now: float
    ) -> None:
        """Forget the failures of a version that has answered for long enough."""
        version = versions.get(row.version)
        sound = row.ready_at is not None and now - row.ready_at >= _SOUND
        if sound and version is not None and version.failures:
            await self._store.table(EndpointVersionTable).change(
                row.endpoint, row.version, failures=0, problem=""
            )

    # -- what is to be done --------------------------------------------------------------------

    async def _step(
        self,
        facts: Seen,
        sets: Mapping[str, ReplicaSet],
        state: GatewayState | None,
        now: float,
    ) -> None:
        endpoint, rows = facts.endpoint, {row.id: row for row in facts.rows}
        wanted = await self._wanted(facts, state, now)
        todo = steps(
            wanted,
            facts.replicas,
            now,
            load=facts.load,
            wait=facts.wait,
            longest=float(endpoint.limits.seconds),
        )
        table = self._store.table(EndpointReplicaTable)
        for id_ in (*todo.drain, *todo.retire):
            if rows[id_].draining_at is None:
                await table.change(rows[id_].user, id_, draining_at=now)
        for id_ in todo.retire:
            if id_ in sets:
                await self._retire(sets[id_])
        await self._try_examples(facts, now)
        await self._notices.send_late(endpoint, facts.replicas, rows, facts.load, now)
        problem = next((sets[id_].problem for id_ in rows if id_ in sets if sets[id_].problem), "")
        # A predecessor and its successor count once against the owner's limit.
        twice = sum(row.draining_at is not None or row.successor_of in rows for row in facts.rows)
        for launch in todo.launch:
            version = facts.versions.get(launch.version)
            if version is None:
                continue
            if version.failures >= _TRIES:
                problem = _given_up(version)
            elif now >= self._next_launch(version):
                twice += bool(launch.successor_of)
                try:
                    await self._launch(endpoint, version, launch, self._per_user + twice, now)
                except (NotAllowed, GatewayAway) as error:
                    problem = error.message
        await self._complain(endpoint, problem)

    def _next_launch(self, version: EndpointVersion) -> float:
        last = self._failed.get((version.endpoint, version.number), 0.0)
        return last + (pause(version.failures) if version.failures else 0.0)

    async def _wanted(
        self, facts: Seen, state: GatewayState | None, now: float
    ) -> Mapping[int, int]:
        """Return the number of replicas by version."""
        endpoint, name = facts.endpoint, facts.endpoint.name
        shares = {int(number): share for number, share in endpoint.shares.items()}
        demand = state.demand(name) if state is not None else None
        active = max(endpoint.active_at, endpoint.created_at, self._active.get(name, 0.0))
        if state is not None and demand is not None:
            requests = state.requests(name)
            if demand.in_flight or demand.waiting or requests > self._requests.get(name, requests):
                active = now
            self._requests[name] = requests
            if active - endpoint.active_at >= _ACTIVE:
                await self._store.table(EndpointTable).change(name, active_at=active)
            self._active[name] = active
        bounds = Bounds(endpoint.least, endpoint.most, endpoint.target, float(endpoint.idle))
        current = self._totals.get(name)
        if current is None:
            living = [each for each in facts.replicas if each.state is not ReplicaState.DRAINING]
            ids = {each.id for each in living}
            current = sum(each.successor_of not in ids for each in living)
        if name in self._woken:
            self._woken.discard(name)
            current, active = max(1, current), now
            self._active[name] = now
        scale = self._scales.setdefault(name, Scale())
        total = self._totals[name] = scale.wanted(demand, current, bounds, now, active)
        return distributed(total, shares)

    async def _launch(
        self, endpoint: Endpoint, version: EndpointVersion, launch: Launch, most: int, now: float
    ) -> None:
        """Record a replica and its set, which the reconciler launches. Raises NotAllowed for one
        too many, GatewayAway without the gateway's certificate."""
        certificate = await self._gateway.certificate()
        id_ = uuid.uuid4().hex
        options = {**version.resources, "environment": version.environment}
        row = EndpointReplica(
            user=endpoint.user,
            id=id_,
            endpoint=endpoint.name,
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
            await self._store.table(ReplicaSetTable).save(wanted, most)
        except NotAllowed:
            await table.remove(row.user, row.id)
            raise
        self._reconcile()
        self.changed.set()  # the routes say when it is expected

    async def _retire(self, found: ReplicaSet) -> None:
        if found.replicas:
            none = found.model_copy(update={"replicas": 0})
            await self._store.table(ReplicaSetTable).save(none, 0)
            self._reconcile()

    async def _complain(self, endpoint: Endpoint, problem: str) -> None:
        if problem != endpoint.problem:
            await self._store.table(EndpointTable).change(endpoint.name, problem=problem)

    # -- examples and routes -------------------------------------------------------------------

    async def _try_examples(self, facts: Seen, now: float) -> None:
        """Begin to try the replicas that answer and were not tried; give up those that fail."""
        for row in facts.rows:
            answers = row.answered_at is not None and row.ready_at is None
            version = facts.versions.get(row.version)
            if not answers or row.draining_at is not None or version is None:
                continue
            failures, last = self._examples.get(row.id, (0, 0.0))
            if failures >= _EXAMPLES:
                table = self._store.table(EndpointReplicaTable)
                await table.change(row.user, row.id, draining_at=now)
                words = "Its replica did not answer the example."
                await self._fail(row, facts.versions, version.problem or words, now)
            elif row.id not in self._trying and now >= last + _AGAIN * bool(failures):
                address = self._address(row, facts.records.get(row.id))
                if address:
                    self._trying[row.id] = asyncio.create_task(self._try(row, version, address))

    async def _try(self, row: EndpointReplica, version: EndpointVersion, address: str) -> None:
        """Send the example to a replica, and write down whether it answered."""
        try:
            problem = await self._gateway.try_example(
                row.id, address, row.certificate, version.example, version.health
            )
            now = time.time()
            if problem:
                failures = self._examples.get(row.id, (0, 0.0))[0] + 1
                self._examples[row.id] = (failures, now)
                versions = self._store.table(EndpointVersionTable)
                await versions.change(version.endpoint, version.number, problem=problem)
            else:
                self._examples.pop(row.id, None)
                table = self._store.table(EndpointReplicaTable)
                # Only what was tried: it may have begun anew meanwhile.
                await table.set_ready(row, now)
                if version.problem and not version.failures:
                    versions = self._store.table(EndpointVersionTable)
                    await versions.change(version.endpoint, version.number, problem="")
        except PortalError as error:
            self._log.warning("Replica %s of %s cannot be tried: %s", row.id, row.endpoint, error)
        finally:
            self._trying.pop(row.id, None)
            self.changed.set()

    def _address(self, row: EndpointReplica, record: SessionRecord | None) -> str:
        """Return the address of a replica as the gateway reaches it; "" while it is unknown."""
        if record is None or not record.nodes or not row.port:
            return ""
        view, name = self._view(), record.nodes[0]
        node = view.snapshot.nodes.get(name) if view is not None else None
        host = (node.address if node is not None else "") or name
        return f"[{host}]:{row.port}" if ":" in host else f"{host}:{row.port}"

    def _job(self, row: EndpointReplica) -> Job | None:
        view = self._view()
        return view.snapshot.jobs.get(row.job_id) if view is not None else None

    def _routes(self, facts: Seen, now: float) -> dict[str, Any]:
        """Return what the gateway is told of an endpoint."""
        endpoint = facts.endpoint
        shares = {int(number): share for number, share in endpoint.shares.items()}
        wanted = distributed(self._totals.get(endpoint.name, 0), shares)
        weight = weights(facts.replicas, shares, wanted)
        told = []
        for row in facts.rows:
            address = self._address(row, facts.records.get(row.id))
            if row.id in weight and address and row.ready_at is not None:
                told.append(
                    {
                        "id": row.id,
                        "address": address,
                        "certificate": row.certificate,
                        "weight": weight[row.id],
                        "draining": row.draining_at is not None,
                        "version": row.version,
                    }
                )
        newest = max((number for number, share in shares.items() if share), default=0)
        version = facts.versions.get(newest)
        return {
            "owner": endpoint.user,
            "users": list(endpoint.users),
            "groups": list(endpoint.groups),
            "everyone": endpoint.everyone,
            "paths": list(version.paths) if version is not None else [],
            "limits": endpoint.limits.model_dump(),
            "expected": expected_at(facts.replicas, self._starts(facts), now, facts.load),
            "replicas": told,
        }

    def _starts(self, facts: Seen) -> dict[str, float]:
        """Return when waiting jobs are expected to start: by Slurm, or by the queue's times."""
        starts = {}
        for row in facts.rows:
            job = self._job(row)
            known = job.start_time if job is not None else None
            starts[row.id] = known if known is not None else row.created_at + facts.wait
        return starts


def _given_up(version: EndpointVersion) -> str:
    words = f"Version {version.number} was given up: {_TRIES} replicas in a row failed."
    return f"{words} The last one: {version.problem}" if version.problem else words
