"""Snapshots made by tests, and what they are of: nodes, jobs, sessions, readings and people."""

from __future__ import annotations

import time
from typing import Any

from session_records import recorded

from portal.models import scope
from portal.models.cluster.cluster import ClusterSnapshot, GpuPool, Job, JobState, Node
from portal.models.cluster.gpu import GpuReading
from portal.models.person import Person
from portal.models.session.session import SessionRecord, SessionState

NOW = 1_800_000_000.0
ADA = Person(name="ada")
GRACE = Person(name="grace", admin=True, scopes=frozenset({scope.JOBS_READ}))
STRANGER = Person(name="barbara")


def node(name: str, *pools: GpuPool, state: str = "IDLE", **more: Any) -> Node:
    """Build a node with these GPUs."""
    return Node(name=name, address=name, state=state, gpus=pools, **more)


def gpu_node(name: str, gpu: str = "", count: int = 0, used: int = 0, **more: Any) -> Node:
    """Build a node of 16 CPUs with ``count`` GPUs of one type, of which so many are in use."""
    pools = (GpuPool(type=gpu, count=count, used=used),) if count else ()
    return node(name, *pools, **{"cpus": 16, "memory": 64_000, **more})


def pool(count: int = 4, *used: int, type: str = "v100") -> GpuPool:
    """Build a pool of GPUs of which the indexes ``used`` are in use."""
    return GpuPool(type=type, count=count, used=len(used), used_indexes=used)


def job(
    id: str, user: str = "ada", held: dict[str, tuple[int, ...]] | None = None, **more: Any
) -> Job:
    """Build a running job that holds these GPUs."""
    held = held or {}
    values = {
        "name": f"name-of-{id}",
        "account": "research",
        "partition": "gpu",
        "state": JobState.RUNNING,
        "nodes": tuple(held) or ("gpu01",),
        "gpu_indexes": held,
        "gpus": sum(len(indexes) for indexes in held.values()),
        "submit_time": NOW - 600,
        "start_time": NOW - 500,
        "end_time": NOW + 3100,
        "time_limit": 3600,
    }
    return Job(id=id, user=user, **{**values, **more})


def waiting(id: str, user: str = "ada", priority: int | None = 10, **more: Any) -> Job:
    """Build a pending job."""
    values: dict[str, Any] = {
        "state": JobState.PENDING,
        "reason": "Priority",
        "nodes": (),
        "start_time": None,
        "end_time": None,
    }
    return job(id, user, priority=priority, **{**values, **more})


def snapshot(*things: Node | Job, error: str = "", at: float = NOW) -> ClusterSnapshot:
    """Build a snapshot of a cluster with these nodes and jobs."""
    return ClusterSnapshot(
        taken_at=at,
        nodes={thing.name: thing for thing in things if isinstance(thing, Node)},
        jobs={thing.id: thing for thing in things if isinstance(thing, Job)},
        error=error,
    )


def record(id: str, job_id: str, user: str = "ada", **more: Any) -> SessionRecord:
    """Build the record of a session that runs as this job."""
    values: dict[str, Any] = {
        "environment": "pytorch",
        "state": SessionState.RUNNING,
        "submitted_at": NOW - 600,
        "account": user,
    }
    return recorded(id=id, user=user, job_id=job_id, **{**values, **more})


def reading(node: str, index: int, utilization: float | None, **more: Any) -> GpuReading:
    """Build a reading of a GPU."""
    return GpuReading(
        node=node, index=index, at=time.time(), source="dcgm", utilization=utilization, **more
    )
