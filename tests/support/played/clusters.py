"""Snapshots that a test makes, and a watcher that tells them in the place of Slurm."""

from __future__ import annotations

import time
from typing import Any

from portal.errors import PortalError
from portal.models import scope
from portal.models.cluster.cluster import ClusterSnapshot, GpuPool, Job, JobState, Node
from portal.models.cluster.gpu import GpuReading
from portal.models.person import Person
from portal.models.session.session import SessionRecord, SessionState
from portal.slurm import Cluster
from portal.telemetry import Telemetry

NOW = 1_800_000_000.0
ADA = Person(name="ada")
GRACE = Person(name="grace", admin=True, scopes=frozenset({scope.JOBS_READ}))
STRANGER = Person(name="barbara")


def node(name: str, *pools: GpuPool, state: str = "IDLE", **more: Any) -> Node:
    """A node with these GPUs."""
    return Node(name=name, address=name, state=state, gpus=pools, **more)


def pool(count: int = 4, *used: int, type: str = "v100") -> GpuPool:
    """GPUs of which these indexes are in use."""
    return GpuPool(type=type, count=count, used=len(used), used_indexes=used)


def job(
    id: str, user: str = "ada", held: dict[str, tuple[int, ...]] | None = None, **more: Any
) -> Job:
    """A running job that holds these GPUs."""
    held = held or {}
    words = {
        "name": f"name-of-{id}",
        "account": "research",
        "partition": "gpu",
        "state": JobState.RUNNING,
        "nodes": tuple(held) or ("gpu01",),
        "gpus": sum(len(some) for some in held.values()),
        "submit_time": NOW - 600,
        "start_time": NOW - 500,
        "end_time": NOW + 3100,
        "time_limit": 3600,
    }
    return Job(id=id, user=user, gpu_indexes=held, **{**words, **more})


def waiting(id: str, user: str = "ada", priority: int | None = 10, **more: Any) -> Job:
    """A job in the queue."""
    words: dict[str, Any] = {
        "state": JobState.PENDING,
        "reason": "Priority",
        "nodes": (),
        "start_time": None,
        "end_time": None,
    }
    return job(id, user, priority=priority, **{**words, **more})


def snapshot(*things: Node | Job, error: str = "", at: float = NOW) -> ClusterSnapshot:
    """The cluster with these nodes and jobs."""
    return ClusterSnapshot(
        taken_at=at,
        nodes={one.name: one for one in things if isinstance(one, Node)},
        jobs={one.id: one for one in things if isinstance(one, Job)},
        error=error,
    )


def record(id: str, job_id: str, user: str = "ada", **more: Any) -> SessionRecord:
    """A session that runs as this job."""
    words: dict[str, Any] = {
        "environment": "pytorch",
        "state": SessionState.RUNNING,
        "submitted_at": NOW - 600,
        "account": user,
    }
    return SessionRecord(id=id, user=user, job_id=job_id, **{**words, **more})


def reading(node: str, index: int, utilization: float | None, **more: Any) -> GpuReading:
    """What a GPU did."""
    return GpuReading(
        node=node, index=index, at=time.time(), source="dcgm", utilization=utilization, **more
    )


class ToldCluster(Cluster):
    """Answers with ``told``, or raises it; ``asked`` counts."""

    def __init__(self, told: ClusterSnapshot | PortalError) -> None:
        super().__init__()
        self.told = told
        self.asked = 0

    async def snapshot(self, *_: Any, **__: Any) -> ClusterSnapshot:
        self.asked += 1
        if isinstance(self.told, PortalError):
            raise self.told
        return self.told


class ToldTelemetry(Telemetry):
    """Has these readings; the source may count."""

    def __init__(self, *told: GpuReading) -> None:
        super().__init__()
        self.told = told

    def readings(self, snapshot: ClusterSnapshot) -> dict[tuple[str, int], GpuReading]:
        return {(one.node, one.index): one for one in self.told}

    accountable = readings
