"""GPU items of the cluster page: the state of each GPU, and its job."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from ..models.cluster.cluster import GpuPool, Node
from ..models.cluster.dashboard import GpuItem, JobItem
from ..models.cluster.gpu import GpuReading, GpuState
from .nodes import pools_by_index, unheld

# Fields of an item that may be others at the next refresh, the node and the index being the same.
_CHANGING = (
    *("type", "state", "job_id", "user", "environment"),
    *("utilization", "memory_used", "memory_total", "source"),
)
_changing = attrgetter(*_CHANGING)
_STEP = 5.0  # percent: the utilization changes all the time, and is shown in these steps


def gpu_items(
    node: Node,
    holders: Mapping[int, JobItem],
    readings: Mapping[int, tuple[GpuReading, bool | None]],
    current_items: Mapping[str, GpuItem],
    patience: float = 1.0,
) -> dict[str, GpuItem]:
    """Build the items of a node's GPUs, by "NODE/INDEX".

    ``holders``: the job of each index, if known. ``readings``: each with whether the GPU is busy.
    ``current_items`` are the items shown now: unchanged ones are reused. ``patience``: number of
    steps by which a GPU's use must have changed to be news.
    """
    items = {}
    without = unheld(node)
    for index, pool in enumerate(pools_by_index(node)):
        key = f"{node.name}/{index}"
        holder, before = holders.get(index), current_items.get(key)
        job_id = holder.id if holder else None
        state = without
        # A node that is away shows as such; a job that holds the GPU is still named.
        if without is not GpuState.DOWN:
            held = True if holder else _held(pool, index)
            if held is not False:
                state = GpuState.UNKNOWN if held is None else GpuState.ALLOCATED
        measured = readings.get(index)
        utilization, used, total, source = None, None, None, None
        if measured is not None:
            reading, busy = measured
            if state is GpuState.ALLOCATED and busy is not None:
                state = GpuState.BUSY if busy else GpuState.IDLE
            source, total = reading.source, reading.memory_total
            last = before if before is not None and before.job_id == job_id else None
            utilization = _steady(
                reading.utilization, last.utilization if last else None, _STEP, patience
            )
            step = max(1.0, (total or 0) / 100)
            memory = _steady(
                reading.memory_used, last.memory_used if last else None, step, patience
            )
            used = None if memory is None else int(memory)
        user = holder.user if holder else None
        environment = holder.environment if holder else None
        now = (pool.type, state, job_id, user, environment, utilization, used, total, source)
        if before is not None and _changing(before) == now:
            items[key] = before
            continue
        values = dict(zip(_CHANGING, now, strict=True))
        items[key] = GpuItem.trusted(node=node.name, index=index, mine=False, **values)
    return items


def without_names(item: GpuItem) -> GpuItem:
    """Return the GPU without names, for viewers who may not see them."""
    if item.user is None and item.environment is None:
        return item
    return item.altered(user=None, environment=None)


def _held(pool: GpuPool, index: int) -> bool | None:
    """Return whether this GPU is held, according to Slurm. If Slurm gives no indexes, that is
    known only for a full or empty pool; else None, since any GPU of the pool could be free."""
    if pool.used in (0, pool.count):
        return pool.used > 0
    if pool.used_indexes is None or len(pool.used_indexes) != pool.used:
        return None
    return index in pool.used_indexes


def _steady(now: float | None, before: float | None, step: float, patience: float) -> float | None:
    """Round ``now`` to whole steps; keep ``before``, the value shown, while it is less than
    ``patience`` steps away."""
    if now is None:
        return None
    if before is not None and abs(now - before) < patience * step:
        return before
    return round(now / step) * step
