"""Free resources by GPU type and by partition. Pure: snapshot in, counts out.

"Free" means that a job asking for it could start at once: the node takes new jobs, is
switched on (what is unused on others counts as "asleep"), still has a free CPU and free memory for
the GPU, and no active reservation holds it (a session can use a reserved node only by naming the
reservation).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..models import Frozen
from ..models.cluster.cluster import ClusterSnapshot, JobState, Node, Partition

_NO_LIMIT = 1_000_000  # CPUs of a node


class GpuSupply(Frozen):
    """Supply of one GPU type over the partitions in question. All numbers count GPUs."""

    type: str
    total: int = 0
    free: int = 0
    asleep: int = 0  # unused, on nodes that are switched on when a job needs them
    out_of_service: int = 0  # on nodes that take no new jobs
    per_node: int = 0  # the most that one node has
    free_on_one_node: int = 0  # the most that one session on one node could get now
    partitions: tuple[str, ...] = ()
    each: int = 0  # these are shares: their number for one GPU


class PartitionSupply(Frozen):
    """Supply of a partition: counts of nodes, CPUs, GPUs; memory: MiB; ``max_time``: seconds."""

    name: str
    default: bool = False
    nodes: int = 0
    nodes_usable: int = 0
    cpus: int = 0
    cpus_free: int = 0
    cpus_asleep: int = 0
    cpus_per_node: int = 0
    memory_per_node: int = 0
    gpus: int = 0
    gpus_free: int = 0
    gpus_asleep: int = 0  # as in GpuSupply
    gpu_types: dict[str, int] = {}  # type -> the most that one node has
    max_time: int | None = None
    max_nodes: int | None = None
    waiting: int = 0  # pending jobs


class Availability(Frozen):
    """Supply by GPU type and by partition (the default partition first), and CPUs over all."""

    gpus: dict[str, GpuSupply] = {}
    partitions: dict[str, PartitionSupply] = {}
    cpus: int = 0
    cpus_free: int = 0
    cpus_asleep: int = 0


def reserved_nodes(snapshot: ClusterSnapshot, now: float | None = None) -> frozenset[str]:
    """Return the names of the nodes that an active reservation holds at ``now`` (Unix seconds)."""
    now = time.time() if now is None else now
    return frozenset(
        node
        for reservation in snapshot.reservations.values()
        if reservation.start_time <= now < reservation.end_time
        for node in reservation.nodes
    )


def _takes_jobs(node: Node, reserved: frozenset[str]) -> bool:
    return node.usable and node.name not in reserved


def _free_cpus(node: Node, reserved: frozenset[str], asleep: bool = False) -> int:
    """Return the free CPUs of a node that is switched on, or of one that is ``asleep``."""
    there = _takes_jobs(node, reserved) and node.asleep is asleep
    return max(0, node.cpus - node.cpus_allocated) if there else 0


def _free_gpus(
    node: Node, gpu_type: str | None, reserved: frozenset[str], asleep: bool = False
) -> int:
    """Return the number of GPUs of a type (None: any) that one more job could get on this node,
    if it is switched on, or if it is ``asleep``."""
    cpus = _free_cpus(node, reserved, asleep)
    no_memory = node.memory > 0 and node.memory_allocated >= node.memory
    if not cpus or no_memory:
        return 0
    return sum(max(0, pool.count - pool.used) for pool in node.pools_of(gpu_type))


def _gpu_supply(
    snapshot: ClusterSnapshot, names: Sequence[str], nodes: Sequence[Node], reserved: frozenset[str]
) -> dict[str, GpuSupply]:
    supply = {}
    types = {pool.type: pool for node in nodes for pool in (*node.shares, *node.gpus)}
    for gpu_type, pool in sorted(types.items()):
        having = {node.name: sum(pool.count for pool in node.pools_of(gpu_type)) for node in nodes}
        free = {node.name: _free_gpus(node, gpu_type, reserved) for node in nodes}
        supply[gpu_type] = GpuSupply(
            type=gpu_type,
            total=sum(having.values()),
            free=sum(free.values()),
            asleep=sum(_free_gpus(node, gpu_type, reserved, asleep=True) for node in nodes),
            out_of_service=sum(having[node.name] for node in nodes if not node.usable),
            per_node=pool.each or max(having.values()),
            free_on_one_node=min(pool.each or max(free.values()), max(free.values())),
            each=pool.each,
            partitions=tuple(
                name
                for name in names
                if any(having.get(node) for node in snapshot.partitions[name].nodes)
            ),
        )
    return supply


def _partition_supply(
    snapshot: ClusterSnapshot, partition: Partition, reserved: frozenset[str]
) -> PartitionSupply:
    nodes = [snapshot.nodes[name] for name in partition.nodes if name in snapshot.nodes]
    types: dict[str, int] = {}
    for node in nodes:
        counts: dict[str, int] = {}
        for pool in (*node.gpus, *node.shares):
            counts[pool.type] = counts.get(pool.type, 0) + pool.count
        for gpu_type, count in counts.items():
            types[gpu_type] = max(types.get(gpu_type, 0), count)
    return PartitionSupply(
        name=partition.name,
        default=partition.default,
        nodes=len(nodes),
        nodes_usable=sum(_takes_jobs(node, reserved) for node in nodes),
        cpus=sum(node.cpus for node in nodes),
        cpus_free=sum(_free_cpus(node, reserved) for node in nodes),
        cpus_asleep=sum(_free_cpus(node, reserved, asleep=True) for node in nodes),
        cpus_per_node=min(
            max((node.cpus for node in nodes), default=0), partition.max_cpus_per_node or _NO_LIMIT
        ),
        memory_per_node=max((node.memory for node in nodes), default=0),
        gpus=sum(pool.count for node in nodes for pool in node.gpus),
        gpus_free=sum(_free_gpus(node, None, reserved) for node in nodes),
        gpus_asleep=sum(_free_gpus(node, None, reserved, asleep=True) for node in nodes),
        gpu_types=types,
        max_time=partition.max_time,
        max_nodes=partition.max_nodes,
        waiting=sum(
            job.state is JobState.PENDING and partition.name in job.partition.split(",")
            for job in snapshot.jobs.values()
        ),
    )


def availability(
    snapshot: ClusterSnapshot, partitions: Sequence[str], now: float | None = None
) -> Availability:
    """Return the supply of the named partitions, and what of it is free at ``now`` (Unix seconds).

    A node in several partitions counts once in ``gpus`` and ``cpus``. Names that the snapshot does
    not know are left out.
    """
    reserved = reserved_nodes(snapshot, now)
    names = [name for name in partitions if name in snapshot.partitions]
    member = {node for name in names for node in snapshot.partitions[name].nodes}
    nodes = [node for name, node in sorted(snapshot.nodes.items()) if name in member]
    return Availability(
        gpus=_gpu_supply(snapshot, names, nodes, reserved),
        partitions={
            name: _partition_supply(snapshot, snapshot.partitions[name], reserved) for name in names
        },
        cpus=sum(node.cpus for node in nodes),
        cpus_free=sum(_free_cpus(node, reserved) for node in nodes),
        cpus_asleep=sum(_free_cpus(node, reserved, asleep=True) for node in nodes),
    )
