"""Replicas as rows and records of sessions tell them, and the times that were measured. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portal.models.cluster.cluster import Job
from portal.models.session.session import SessionRecord, SessionState

from ..kind import ServingReplica
from ..models import EndpointReplica
from .handover import Replica, ReplicaState, percentile

LOAD = 300.0  # seconds until a replica answers, while none was measured
WAIT = 600.0  # seconds in the queue, likewise


def server_of(row: EndpointReplica) -> str:
    """Return the name of the server of a replica."""
    return ServingReplica.replica_server(row.id, 0)


def state_of(row: EndpointReplica, record: SessionRecord | None) -> ReplicaState:
    """Return the state of a replica whose session has this record."""
    over = record is not None and record.state is SessionState.ENDED
    if row.ended_at is not None or over:
        return ReplicaState.ENDED
    if row.draining_at is not None:
        return ReplicaState.DRAINING
    if row.ready_at is not None:
        return ReplicaState.READY
    started = record is not None and record.started_at is not None
    return ReplicaState.LOADING if started else ReplicaState.WAITING


def seen(
    row: EndpointReplica,
    record: SessionRecord | None,
    job: Job | None = None,
    in_flight: int | None = None,
) -> Replica:
    """Return a replica as decisions need it. ``job``: as Slurm has it, which alone knows when it
    ends at the latest."""
    started = record.started_at if record is not None else None
    return Replica(
        id=row.id,
        version=row.version,
        state=state_of(row, record),
        successor_of=row.successor_of,
        started_at=started,
        ends_at=job.end_time if job is not None and started is not None else None,
        draining_at=row.draining_at,
        in_flight=in_flight,
    )


def measured(rows: Sequence[EndpointReplica]) -> tuple[float, float]:
    """Return the seconds until a replica answers and those in the queue, each one that nine of ten
    of these replicas did not exceed; guesses where none was measured."""
    loads = [row.loaded for row in rows if row.loaded is not None]
    waits = [row.waited for row in rows if row.waited is not None]
    load, wait = percentile(loads), percentile(waits)
    return LOAD if load is None else load, WAIT if wait is None else wait


def expected_at(
    replicas: Sequence[Replica],
    starts: Mapping[str, float],
    now: float,
    load: float,
) -> float | None:
    """Return when a replica is expected to answer (Unix seconds); None: one does, or none comes.
    ``starts``: when jobs that wait are expected to start, by the id of the replica."""
    if any(replica.state is ReplicaState.READY for replica in replicas):
        return None
    began = {
        ReplicaState.LOADING: lambda replica: replica.started_at,
        ReplicaState.WAITING: lambda replica: starts.get(replica.id),
    }
    times = [began[replica.state](replica) or now for replica in replicas if replica.state in began]
    return max(now, min(times) + load) if times else None


def overlap(row: EndpointReplica, records: Mapping[str, SessionRecord], ended_at: float,
            rows: Sequence[EndpointReplica]) -> float:  # fmt: skip
    """Return the seconds for which the job of a replica and its successor's both ran."""
    for other in rows:
        record = records.get(other.id)
        if other.successor_of == row.id and record is not None and record.started_at is not None:
            return max(0.0, ended_at - record.started_at)
    return 0.0
