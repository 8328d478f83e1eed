"""Facts about one endpoint: what its rows, the Hub's records of sessions and Slurm tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from portal.dashboard import ClusterView
from portal.models.cluster.cluster import Job
from portal.models.session.replica_set import ReplicaSet
from portal.models.session.session import SessionRecord
from portal.models.session.stop_reason import StopCode
from portal.store import Store

from ..gateway import GatewayState
from ..models import Endpoint, EndpointReplica, EndpointVersion
from ..tables import EndpointReplicaTable, EndpointVersionTable
from .failures import SOUND, Failures
from .handover import Replica, ReplicaState
from .launches import Launches
from .replicas import measured, overlap, seen, server_of


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


class Facts:
    """Reader of facts, who writes into the rows of replicas what their sessions tell."""

    def __init__(
        self,
        store: Store,
        view: Callable[[], ClusterView | None],
        failures: Failures,
        launches: Launches,
    ) -> None:
        self._store, self._view = store, view
        self._failures, self._launches = failures, launches

    async def records(self, rows: Sequence[EndpointReplica]) -> dict[str, SessionRecord]:
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

    async def seen(
        self,
        endpoint: Endpoint,
        rows: Sequence[EndpointReplica],
        records: Mapping[str, SessionRecord],
        sets: Mapping[str, ReplicaSet],
        state: GatewayState | None,
        now: float,
    ) -> Seen:
        """Return what is there, without the replicas that have ended."""
        name = endpoint.name
        found = await self._store.table(EndpointVersionTable).of_endpoint(name)
        versions = {version.number: version for version in found}
        living = []
        for row in rows:
            row = await self._noted(row, records.get(row.id))
            if self._is_over(row, records.get(row.id), sets):
                await self._end(row, records, rows, versions, sets, now)
            else:
                living.append(row)
                await self._failures.forgive(row, versions, now)
        past = await self._store.table(EndpointReplicaTable).of_endpoint(name)
        replicas = [
            seen(
                row,
                records.get(row.id),
                self.job(row),
                state.in_flight(name, row.id) if state else None,
            )
            for row in living
        ]
        return Seen(endpoint, versions, living, records, replicas, *measured(past))

    def job(self, row: EndpointReplica) -> Job | None:
        """Return the job of a replica as Slurm has it."""
        view = self._view()
        return view.snapshot.jobs.get(row.job_id) if view is not None else None

    def address(self, row: EndpointReplica, record: SessionRecord | None) -> str:
        """Return the address of a replica as the gateway reaches it; "" while it is unknown."""
        if record is None or not record.nodes or not row.port:
            return ""
        view, name = self._view(), record.nodes[0]
        node = view.snapshot.nodes.get(name) if view is not None else None
        host = (node.address if node is not None else "") or name
        return f"[{host}]:{row.port}" if ":" in host else f"{host}:{row.port}"

    async def _noted(self, row: EndpointReplica, record: SessionRecord | None) -> EndpointReplica:
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
            await self._launches.retire(sets[row.id])
        short = row.ready_at is None or ended - row.ready_at < SOUND
        left = record is not None and record.ending_code == StopCode.SPACE_LEFT
        if record is not None and row.draining_at is None and short and not left:
            words = record.ending_message or "Its job has ended."
            await self._failures.add_failure(row, versions, words, now)
