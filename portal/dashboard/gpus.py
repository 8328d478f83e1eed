"""GPUs as the cluster page shows them: what each one does, and for which job."""

from __future__ import annotations

from collections.abc import Mapping

from ..models.cluster.cluster import GpuPool, Node
from ..models.cluster.dashboard import GpuItem, JobItem
from ..models.cluster.gpu import GpuReading, GpuState
from .nodes import pools_by_index, unheld

_STEP = 5.0  # percent: the utilisation never rests, and is shown in these steps


def gpu_items(
    node: Node,
    holders: Mapping[int, JobItem],
    readings: Mapping[int, tuple[GpuReading, bool | None]],
    shown: Mapping[str, GpuItem],
    patience: float = 1.0,
) -> dict[str, GpuItem]:
    """The GPUs of a node by "NODE/INDEX".

    ``holders``: the job of each index, where it is known. ``readings``: with whether the GPU is
    busy. ``shown`` are the items that are shown now: one that has not changed is used again.
    ``patience``: how many steps the use of a GPU must have moved to be news.
    """
    items = {}
    without = unheld(node)
    for index, pool in enumerate(pools_by_index(node)):
        key = f"{node.name}/{index}"
        holder, before = holders.get(index), shown.get(key)
        job_id = holder.id if holder else None
        state = without
        # On a node that is away, that is the news: a job that holds the GPU is still named.
        if without is not GpuState.DOWN:
            held = True if holder else _held(pool, index)
            if held is not False:
                state = GpuState.UNKNOWN if held is None else GpuState.ALLOCATED
        found = readings.get(index)
        utilization, used, total, source = None, None, None, None
        if found is not None:
            reading, busy = found
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
        if (
            before is not None
            and before.state is state
            and before.job_id == job_id
            and before.user == user
            and before.utilization == utilization
            and before.memory_used == used
            and before.environment == environment
            and before.memory_total == total
            and before.source == source
            and before.type == pool.type
        ):
            items[key] = before
            continue
        items[key] = GpuItem.trusted(
            node=node.name,
            index=index,
            type=pool.type,
            state=state,
            job_id=job_id,
            user=user,
            environment=environment,
            mine=False,
            utilization=utilization,
            memory_used=used,
            memory_total=total,
            source=source,
        )
    return items


def without_names(item: GpuItem) -> GpuItem:
    """The GPU for someone who may not know whose it is."""
    if item.user is None and item.environment is None:
        return item
    return item.altered(user=None, environment=None)


def _held(pool: GpuPool, index: int) -> bool | None:
    """Whether Slurm says that this one is held. Where it gives no indexes, that is known only of a
    pool that is full or empty: None of the others, since any of them could be free."""
    if pool.used in (0, pool.count):
        return pool.used > 0
    if pool.used_indexes is None or len(pool.used_indexes) != pool.used:
        return None
    return index in pool.used_indexes


def _steady(now: float | None, before: float | None, step: float, patience: float) -> float | None:
    """``now`` in whole steps, or what is shown already while it is less than ``patience`` steps
    away."""
    if now is None:
        return None
    if before is not None and abs(now - before) < patience * step:
        return before
    return round(now / step) * step
