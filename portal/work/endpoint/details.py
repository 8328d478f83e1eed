"""Endpoints as their owners see them: versions, replicas and measured times. No I/O."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from portal.models.cluster.cluster import Job
from portal.models.session.session import SessionRecord

from .bodies import (
    EndpointDetail,
    EndpointReplicaItem,
    EndpointState,
    EndpointVersionItem,
    WantedEndpoint,
)
from .keeping.handover import ReplicaState
from .keeping.replicas import expected_at, measured, overlap, seen, server_of, state_of
from .models import Endpoint, EndpointReplica, EndpointVersion


def detail_of(
    endpoint: Endpoint,
    address: str,
    versions: Sequence[EndpointVersion],
    rows: Sequence[EndpointReplica],
    sessions: Mapping[str, SessionRecord],
    jobs: Mapping[str, Job],
    now: float,
) -> EndpointDetail:
    """Return an endpoint with its versions and the replicas of ``rows``. ``sessions``: by server,
    ``jobs``: by id, ``now``: Unix seconds, to which handovers that go on are counted."""
    load, wait = measured(rows)
    shares = {int(number): share for number, share in endpoint.shares.items()}
    found = {row.id: jobs.get(row.job_id) for row in rows}
    starts = {row.id: row.created_at + wait for row in rows}
    starts |= {id_: job.start_time for id_, job in found.items() if job and job.start_time}
    records = {row.id: sessions[server_of(row)] for row in rows if server_of(row) in sessions}
    replicas = [seen(row, records.get(row.id), found[row.id]) for row in rows]
    gpus = {each.number: int(each.resources.get("gpus") or 0) for each in versions}
    overlaps = {
        row.id: row.overlap if row.ended_at is not None else overlap(row, records, now, rows)
        for row in rows
    }
    return EndpointDetail(
        **{field: getattr(endpoint, field) for field in WantedEndpoint.model_fields},
        name=endpoint.name,
        owner=endpoint.user,
        address=address,
        created_at=endpoint.created_at,
        active_at=endpoint.active_at,
        problem=endpoint.problem,
        load=load,
        wait=wait,
        expected_at=expected_at(replicas, starts, now, load),
        versions=tuple(
            EndpointVersionItem.like(each, share=shares.get(each.number, 0)) for each in versions
        ),
        replicas=tuple(
            _replica(
                row, records.get(row.id), found[row.id], overlaps[row.id], gpus.get(row.version, 0)
            )
            for row in rows
        ),
    )


def states_of(rows: Sequence[EndpointReplica]) -> dict[str, Counter[ReplicaState]]:
    """Return how many of these living replicas are in each state, by endpoint."""
    states: dict[str, Counter[ReplicaState]] = defaultdict(Counter)
    for row in rows:
        begun = ReplicaState.WAITING if row.waited is None else ReplicaState.LOADING
        state = state_of(row, None)
        states[row.endpoint][begun if state is ReplicaState.WAITING else state] += 1
    return states


def endpoint_state(endpoint: Endpoint, replicas: Counter[ReplicaState]) -> EndpointState:
    """Return the state of an endpoint with so many replicas of each state."""
    states: dict[ReplicaState, EndpointState] = {
        ReplicaState.READY: "ready",
        ReplicaState.LOADING: "loading",
        ReplicaState.WAITING: "waiting",
    }
    told = next((word for state, word in states.items() if replicas[state]), None)
    if told == "ready" or not endpoint.problem:
        return told or ("asleep" if endpoint.shares else "empty")
    return "failed"


def _replica(
    row: EndpointReplica,
    record: SessionRecord | None,
    job: Job | None,
    both: float,
    gpus: int,
) -> EndpointReplicaItem:
    replica = seen(row, record, job)
    return EndpointReplicaItem(
        id=row.id,
        version=row.version,
        state=replica.state,
        server=server_of(row),
        session=record.id if record is not None else "",
        job_id=row.job_id,
        nodes=record.nodes if record is not None else (),
        successor_of=row.successor_of,
        created_at=row.created_at,
        started_at=replica.started_at,
        ready_at=row.ready_at,
        ends_at=replica.ends_at,
        ended_at=row.ended_at,
        overlap=both,
        gpu_hours=both * gpus / 3600,
    )
