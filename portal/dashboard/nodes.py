"""Node items of the cluster page, and the meaning of a node's state for its GPUs."""

from __future__ import annotations

from itertools import permutations

from ..models.cluster.cluster import GpuPool, Node
from ..models.cluster.dashboard import NodeItem, ShareItem
from ..models.cluster.gpu import GpuState
from ..slurm.reasons import node_words

# Words of a node's state that mean that it is away; the other unusable ones only keep jobs away.
_AWAY = frozenset({"DOWN", "NOT_RESPONDING", "ERROR", "FUTURE", "REBOOT"})
_MOST_POOLS = 5  # 120 orders to try; no node is known that has more types of GPUs


def node_item(node: Node, resume_seconds: int | None = None) -> NodeItem:
    """Build the item of a node; nothing in it belongs to a person. ``resume_seconds``: time in
    which a node is switched on."""
    return NodeItem.trusted(
        name=node.name,
        state=node.state,
        words=node_words(node.state, resume_seconds),
        usable=node.usable,
        asleep=node.usable and node.asleep,
        drained=node.drained,
        down=node.down,
        reason=node.reason,
        partitions=node.partitions,
        cpus=node.cpus,
        cpus_allocated=node.cpus_allocated,
        memory=node.memory,
        memory_allocated=node.memory_allocated,
        gpus=sum(pool.count for pool in node.gpus),
        gpus_allocated=sum(pool.used for pool in node.gpus),
        gpu_types=tuple(pool.type for pool in node.gpus),
        shares=tuple(
            ShareItem.trusted(
                type=pool.type, count=pool.count, used=pool.used, at_most=bool(pool.uncounted)
            )
            for pool in node.shares
        ),
    )


def unheld(node: Node) -> GpuState:
    """Return the state of a GPU of this node that no job holds."""
    if node.usable and node.asleep:
        return GpuState.OFF
    if node.words & _AWAY:
        return GpuState.DOWN
    if "UNKNOWN" in node.words:
        return GpuState.UNKNOWN
    return GpuState.FREE if node.usable else GpuState.DRAINED


def pools_by_index(node: Node) -> tuple[GpuPool, ...]:
    """Return the pool of each GPU of the node, by Slurm's index.

    Slurm numbers all GPUs of a node in one sequence, across types (gres_node_state_t has one bit
    map per GRES name, and IDX is printed from it), in the order of gres.conf. scontrol names the
    types in the order of slurm.conf: if the indexes in use do not fit that order, another one is
    used.
    """
    orders = [node.gpus]
    if 1 < len(node.gpus) <= _MOST_POOLS:
        orders += permutations(node.gpus)  # the first is tried twice, which does not matter
    for order in orders:
        if _fits(order):
            break
    else:
        order = node.gpus
    return tuple(pool for pool in order for _ in range(pool.count))


def _fits(order: tuple[GpuPool, ...]) -> bool:
    first = 0
    for pool in order:
        if not all(first <= index < first + pool.count for index in pool.used_indexes or ()):
            return False
        first += pool.count
    return True
