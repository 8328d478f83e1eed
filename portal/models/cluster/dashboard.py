"""Items of the cluster page: nodes, GPUs, jobs, and their changes.

The same models are the API's items and the event stream's content. Times are Unix seconds,
memory MiB; None: unknown. ``user``, ``name``, ``account``, ``environment``, ``session_id`` and
what begins with ``work`` are None if this viewer may not see them; ``mine`` marks the viewer's own
items.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from .. import Frozen
from .cluster import JobState
from .gpu import GpuState, GpuUse


class QueueReason(StrEnum):
    """Reason for which a job waits, in the few classes that the cluster's history counts."""

    RESOURCES = "resources"
    PRIORITY = "priority"
    LIMIT = "limit"  # of a user, account, QOS or array
    DEPENDENCY = "dependency"
    TIME = "time"  # its start time, or its reservation's
    HELD = "held"
    OTHER = "other"


_REASONS = {
    QueueReason.RESOURCES: "no free resources",
    QueueReason.PRIORITY: "others have priority",
    QueueReason.LIMIT: "a limit is reached",
    QueueReason.DEPENDENCY: "another job must end",
    QueueReason.TIME: "its time has not come",
    QueueReason.HELD: "it is held",
    QueueReason.OTHER: "other reasons",
}


class ShareItem(Frozen):
    """Shares of a node's GPUs: ``type`` is "shard.t4". ``at_most``: Slurm does not count the used
    ones, so all of each GPU in shared use count as used."""

    type: str
    count: int
    used: int
    at_most: bool = False


class NodeItem(Frozen):
    """Node. ``state`` is Slurm's, with flags; ``words`` say the same for people."""

    name: str
    state: str
    words: str
    usable: bool
    asleep: bool = False  # switched off to save power, or on its way; takes jobs all the same
    drained: bool = False  # by somebody, whether jobs still run on it or not
    down: bool = False
    reason: str = ""
    partitions: tuple[str, ...] = ()
    cpus: int = 0
    cpus_allocated: int = 0
    memory: int = 0
    memory_allocated: int = 0
    gpus: int = 0
    gpus_allocated: int = 0
    gpu_types: tuple[str, ...] = ()
    shares: tuple[ShareItem, ...] = ()  # of its GPUs, by gres/shard and gres/mps


class GpuItem(GpuUse):
    """GPU; its key in mappings is "NODE/INDEX"."""

    type: str
    state: GpuState
    job_id: str | None = None
    user: str | None = None
    environment: str | None = None
    mine: bool = False
    source: str | None = None  # of the reading: "dcgm", "amd", "session"…


class JobItem(Frozen):
    """Slurm job, of a portal session (``portal``) or not."""

    id: str
    state: str
    words: str  # the state, and for a pending job why it waits
    portal: bool = False
    mine: bool = False
    user: str | None = None
    name: str | None = None
    account: str | None = None
    environment: str | None = None
    session_id: str | None = None
    work: str | None = None  # the word for the kind of the session: "session", "kernel", "run"
    work_name: str | None = None  # of the run, or of the kernel's kernelspec
    work_id: str | None = None
    partition: str = ""
    qos: str = ""
    nodes: tuple[str, ...] = ()
    gpus: int = 0
    gpu_type: str = ""
    gpu_indexes: dict[str, tuple[int, ...]] = {}
    cpus: int = 0
    memory: int | None = None
    submit_time: float | None = None
    start_time: float | None = None  # None while it waits
    expected_start: float | None = None  # Slurm's estimate for a pending job
    time_limit: int | None = None
    end_time: float | None = None  # end of its time limit
    position: int | None = None  # place in its partition's queue, from 1
    held: bool = False


class ClusterSummary(Frozen):
    """Counts for the whole cluster. ``gpus`` maps each GpuState to a number; ``gpus_by_type``
    maps a GPU type to such counts."""

    nodes: int = 0
    nodes_usable: int = 0
    gpus: dict[GpuState, int] = {}
    gpus_by_type: dict[str, dict[GpuState, int]] = {}
    jobs_running: int = 0
    jobs_pending: int = 0
    sessions_running: int = 0
    sessions_pending: int = 0


class GridVersion(Frozen):
    """Version of the grid, or of the changes that lead to it."""

    stream: str
    version: int
    taken_at: float
    error: str = ""
    telemetry_error: str = ""
    telemetry_at: float | None = None
    summary: ClusterSummary
    nodes: dict[str, NodeItem] = {}
    gpus: dict[str, GpuItem] = {}


class Board(GridVersion):
    """Everything that the grid shows, at one version. ``stream`` identifies this run of the
    service; ``{stream}-{version}`` is the id of the event that brought it."""

    simulated: bool = False


class Changes(GridVersion):
    """Changes since the previous version; items that are gone are named."""

    jobs: dict[str, JobItem] = {}
    gone_nodes: tuple[str, ...] = ()
    gone_gpus: tuple[str, ...] = ()
    gone_jobs: tuple[str, ...] = ()


def page_facts() -> dict[str, Any]:
    """Return facts about these items for the page: their defaults, which events omit, the Slurm
    states of a job that holds its nodes ("running") or waits ("pending"), and the words of each
    QueueReason."""
    items: dict[str, type[Frozen]] = {
        "node": NodeItem,
        "gpu": GpuItem,
        "job": JobItem,
        "summary": ClusterSummary,
    }
    return {
        "defaults": {name: _defaults(item) for name, item in items.items()},
        "states": {
            "running": [state.lower() for state in JobState if state.running],
            "pending": [state.lower() for state in JobState if state.pending],
        },
        "reasons": _REASONS,
    }


def _defaults(item: type[Frozen]) -> dict[str, Any]:
    fields = item.model_fields.items()
    return {name: field.get_default() for name, field in fields if not field.is_required()}
