"""Builder of items from Slurm, the database and telemetry; unchanged items are kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ..models.cluster.array import array_id
from ..models.cluster.cluster import ClusterSnapshot, Job, Node
from ..models.cluster.dashboard import ClusterSummary, GpuItem, JobItem, NodeItem
from ..models.cluster.gpu import GpuReading, GpuState
from ..models.session.session import SessionRecord
from ..slurm.watch.queue import positions
from . import gpus, jobs
from .nodes import node_item
from .view import Owned

# The utilization of thousands of GPUs changes all the time, by a few percent: each node's small
# changes are sent once in so many refreshes, so that they do not drown other news.
_TURNS = 12
_PATIENCE = 2.0  # steps of change that are sent at once

Readings = Mapping[tuple[str, int], GpuReading]


@dataclass
class Items:
    """All items of one version, and which of them are new (``changed_…``) or gone since the last.

    Jobs do not contain their position; ``positions`` does. When a job starts, all behind it move
    up, which is news only to their owners: ``moved_jobs`` are those with only a new position or
    expected start.
    """

    nodes: dict[str, NodeItem] = field(default_factory=dict)
    gpus: dict[str, GpuItem] = field(default_factory=dict)
    jobs: dict[str, JobItem] = field(default_factory=dict)
    unnamed_gpus: dict[str, GpuItem] = field(default_factory=dict)
    unnamed_jobs: dict[str, JobItem] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    sessions: dict[str, SessionRecord] = field(default_factory=dict)
    owned: dict[str, Owned] = field(default_factory=dict)
    summary: ClusterSummary = field(default_factory=ClusterSummary)
    changed_nodes: list[str] = field(default_factory=list)
    changed_gpus: list[str] = field(default_factory=list)
    changed_jobs: list[str] = field(default_factory=list)
    moved_jobs: set[str] = field(default_factory=set)
    gone_nodes: tuple[str, ...] = ()
    gone_gpus: tuple[str, ...] = ()
    gone_jobs: tuple[str, ...] = ()


@dataclass
class _Inputs:
    """Inputs for the GPU items of a node, and these items."""

    node: Node
    holders: dict[int, JobItem]
    readings: dict[int, tuple[GpuReading, bool | None]]
    gpus: dict[str, GpuItem] = field(default_factory=dict)
    unnamed: dict[str, GpuItem] = field(default_factory=dict)

    def same(self, other: _Inputs) -> bool:
        return (
            self.node is other.node
            and self.readings == other.readings
            and self.holders == other.holders
        )


class Builder:
    """Builder that keeps the last items, so that the next ones cost only what has changed."""

    def __init__(self) -> None:
        self._last = Items()
        self._nodes: Mapping[str, Node] = {}
        self._inputs: dict[str, _Inputs] = {}
        self._turn = 0
        self._jobs: dict[str, tuple[Job, SessionRecord | None]] = {}

    def build(
        self,
        snapshot: ClusterSnapshot,
        sessions: Iterable[SessionRecord],
        readings: Readings,
        busy: Callable[[GpuReading], bool | None],
    ) -> Items:
        """Build the items of this snapshot. Pure except for the kept items; one call at a time.

        ``sessions`` are joined to jobs by id and account: Slurm may reuse ids for other people.
        """
        new = Items()
        self._build_jobs(new, snapshot, {(s.job_id, s.account or s.user): s for s in sessions})
        self._build_nodes(new, snapshot)
        self._build_gpus(new, snapshot, readings, busy)
        new.owned = _owned(new)
        new.summary = self._summary(new)
        last = self._last
        new.gone_nodes = tuple(last.nodes.keys() - new.nodes.keys())
        new.gone_gpus = tuple(last.gpus.keys() - new.gpus.keys())
        new.gone_jobs = tuple(last.jobs.keys() - new.jobs.keys())
        self._last = new
        return new

    def _build_jobs(
        self,
        new: Items,
        snapshot: ClusterSnapshot,
        sessions: Mapping[tuple[str, str], SessionRecord],
    ) -> None:
        known: dict[str, tuple[Job, SessionRecord | None]] = {}
        last, last_unnamed = self._last.jobs, self._last.unnamed_jobs
        for id_, job in snapshot.jobs.items():
            if job.state.ended:
                continue
            before = self._jobs.get(id_)
            session = sessions.get((array_id(id_), job.user))
            if session is None and before and before[1] and _same_job(before[0], job):
                session = before[1]  # ended for the Hub, while its job is still ending
            if session is not None:
                new.sessions[id_] = session
            known[id_] = (job, session)
            if before and before[0] is job and _same(before[1], session):
                new.jobs[id_], new.unnamed_jobs[id_] = last[id_], last_unnamed[id_]
                continue
            item, old = jobs.job_item(job, session, snapshot.taken_at), last.get(id_)
            if old is not None and item == old:
                new.jobs[id_], new.unnamed_jobs[id_] = old, last_unnamed[id_]
                continue
            guess = item.expected_start
            if old is not None and old.altered(expected_start=guess) == item:
                new.moved_jobs.add(id_)
            else:
                new.changed_jobs.append(id_)
            new.jobs[id_], new.unnamed_jobs[id_] = item, jobs.without_names(item)
        self._jobs = known
        new.positions = positions(snapshot.jobs)
        moved = new.positions.items() - self._last.positions.items()
        new.moved_jobs |= {id_ for id_, _ in moved}.difference(new.changed_jobs)

    def _build_nodes(self, new: Items, snapshot: ClusterSnapshot) -> None:
        for name, node in snapshot.nodes.items():
            old = self._last.nodes.get(name)
            if old is not None and self._nodes.get(name) is node:
                new.nodes[name] = old
                continue
            item = node_item(node, snapshot.resume_seconds_of([node]))
            if item == old:
                item = old
            else:
                new.changed_nodes.append(name)
            new.nodes[name] = item
        self._nodes = snapshot.nodes

    def _build_gpus(
        self,
        new: Items,
        snapshot: ClusterSnapshot,
        readings: Readings,
        busy: Callable[[GpuReading], bool | None],
    ) -> None:
        holders: dict[str, dict[int, JobItem]] = defaultdict(dict)
        for item in new.jobs.values():
            for name, indexes in item.gpu_indexes.items():
                holders[name].update(dict.fromkeys(indexes, item))
        read: dict[str, dict[int, tuple[GpuReading, bool | None]]] = defaultdict(dict)
        for (name, index), reading in readings.items():
            read[name][index] = (reading, busy(reading))
        inputs: dict[str, _Inputs] = {}
        self._turn += 1
        for number, (name, node) in enumerate(snapshot.nodes.items()):
            if not node.gpus:
                continue
            given = _Inputs(node, holders.get(name, {}), read.get(name, {}))
            before = self._inputs.get(name)
            if before is not None and before.same(given):
                given = before
            else:
                # A large change is sent at once; a small one when it is the node's turn.
                patience = 1.0 if (number + self._turn) % _TURNS == 0 else _PATIENCE
                self._renew(new, given, patience)
            inputs[name] = given
            new.gpus |= given.gpus
            new.unnamed_gpus |= given.unnamed
        self._inputs = inputs

    def _renew(self, new: Items, given: _Inputs, patience: float) -> None:
        current_items, unnamed = self._last.gpus, self._last.unnamed_gpus
        given.gpus = gpus.gpu_items(
            given.node, given.holders, given.readings, current_items, patience
        )
        for key, gpu in given.gpus.items():
            if current_items.get(key) is gpu:
                given.unnamed[key] = unnamed[key]
            else:
                new.changed_gpus.append(key)
                given.unnamed[key] = gpus.without_names(gpu)

    def _summary(self, items: Items) -> ClusterSummary:
        counts = Counter((gpu.type, gpu.state) for gpu in items.gpus.values())
        total: Counter[GpuState] = Counter()
        by_type: dict[str, dict[GpuState, int]] = {}
        for (kind, state), number in sorted(counts.items()):
            total[state] += number
            by_type.setdefault(kind, {})[state] = number
        waiting = [session for job, session in self._jobs.values() if job.state.pending]
        # An array is one session with many jobs.
        sessions = {session.id for session in items.sessions.values()}
        running = {
            session.id for job, session in self._jobs.values() if session and not job.state.pending
        }
        return ClusterSummary(
            nodes=len(items.nodes),
            nodes_usable=sum(node.usable for node in items.nodes.values()),
            gpus=dict(total),
            gpus_by_type=by_type,
            jobs_running=len(items.jobs) - len(waiting),
            jobs_pending=len(waiting),
            sessions_running=len(running),
            sessions_pending=len(sessions - running),
        )


def _same_job(job: Job, other: Job) -> bool:
    return (job.user, job.submit_time) == (other.user, other.submit_time)


def _same(record: SessionRecord | None, other: SessionRecord | None) -> bool:
    """Return True if two records agree on what an item shows."""
    if record is None or other is None:
        return record is other
    return record is other or (record.id, record.user, record.environment) == (
        other.id,
        other.user,
        other.environment,
    )


def _owned(items: Items) -> dict[str, Owned]:
    of_jobs: dict[str, list[str]] = defaultdict(list)
    of_gpus: dict[str, list[str]] = defaultdict(list)
    for id_, job in items.jobs.items():
        if job.user is not None:
            of_jobs[job.user].append(id_)
    for key, gpu in items.gpus.items():
        if gpu.user is not None:
            of_gpus[gpu.user].append(key)
    return {user: Owned(tuple(ids), tuple(of_gpus.get(user, ()))) for user, ids in of_jobs.items()}
