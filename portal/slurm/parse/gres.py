"""GRES and TRES strings, in every form that Slurm 22.05 to 26.05 writes.

Nodes: ``gpu:v100:4(S:0-1)``, used: ``gpu:v100:2(IDX:0-1)``, ``gpu:(null):4(IDX:0-3)``,
``gpu:v100:0(IDX:N/A)``. TRES: ``cpu=2,gres/gpu=2,gres/gpu:v100=2``. Requests: ``gres:gpu:v100:2``
(22.05), ``gres/gpu:v100:2`` (newer), ``gpu:2``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from ...models.cluster.cluster import GpuPool

_ENTRY = re.compile(r"([^,()=]+(?:\(null\)[^,()=]*)?)(?:\(([^)]*)\))?(?:=([^,()]+))?(?:,|$)")
_COUNT = re.compile(r"(\d+)([KMGT]?)$")
_FACTOR = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
UNNAMED = "gpu"  # the type of GPUs where Slurm names none


class Gpus(NamedTuple):
    """GPUs of one type: their number, and their indexes if Slurm gave them."""

    type: str
    number: int
    indexes: tuple[int, ...] | None


@lru_cache(maxsize=8192)
def gpus(text: str) -> tuple[Gpus, ...]:
    """Return the GPUs of a GRES string, one entry per type in Slurm's order; no other GRES."""
    by_type: dict[str, Gpus] = {}
    for entry, note, _ in _ENTRY.findall(text):
        parts = re.split(r"[:/]", entry.strip())
        if parts and parts[0] == "gres":
            parts = parts[1:]
        if not parts or parts[0] != "gpu":
            continue
        rest = [part for part in parts[1:] if part != "no_consume"]
        count = amount(rest.pop()) if rest and _COUNT.match(rest[-1]) else 1
        kind = rest[0] if rest and rest[0] not in ("(null)", "") else UNNAMED
        indexes = _indexes(note)
        if kind in by_type:
            before = by_type[kind]
            count += before.number
            if indexes is not None and before.indexes is not None:
                indexes = before.indexes + indexes
        by_type[kind] = Gpus(kind, count, indexes)
    return tuple(by_type.values())


@lru_cache(maxsize=8192)
def tres(text: str) -> dict[str, str]:
    """Parse "cpu=2,mem=4000M,gres/gpu=2" into {"cpu": "2", "mem": "4000M", "gres/gpu": "2"}."""
    pairs = (part.partition("=") for part in text.split(",") if "=" in part)
    return {name.strip(): value.strip() for name, _, value in pairs}


@lru_cache(maxsize=8192)
def tres_gpus(text: str) -> tuple[int, str]:
    """Return (count, type) of the GPUs in a TRES string.

    The type is "" if Slurm does not give it, or if the GPUs are of several types.
    """
    total, typed = 0, {}
    for name, value in tres(text).items():
        if name == "gres/gpu":
            total = amount(value)
        elif name.startswith("gres/gpu:"):
            typed[name.removeprefix("gres/gpu:")] = amount(value)
    typed = {kind: count for kind, count in typed.items() if count}
    total = max(total, sum(typed.values()))
    if len(typed) == 1:
        ((kind, count),) = typed.items()
        return total, kind if count == total else ""
    return total, ""


def pools(gres: str, used: str) -> tuple[GpuPool, ...]:
    """Return the GPU pools of a node from its ``Gres=`` and ``GresUsed=``.

    If only one side names the type (``gpu:4`` beside ``gpu:v100:2(IDX:0-1)``) and there is a
    single pool, they are the same GPUs.
    """
    have = gpus(gres)
    using = {pool.type: pool for pool in gpus(used)}
    if len(have) == 1 and len(using) == 1 and have[0].type not in using:
        (only,) = using.values()
        kind = only.type if have[0].type == UNNAMED else have[0].type
        have = (have[0]._replace(type=kind),)
        using = {kind: only}
    node_pools = []
    for pool in have:
        use = using.get(pool.type)
        node_pools.append(
            GpuPool.trusted(
                type=pool.type,
                count=pool.number,
                used=min(use.number, pool.number) if use else 0,
                used_indexes=use.indexes if use else None,
            )
        )
    return tuple(node_pools)


def amount(text: str) -> int:
    """Return the number of "2" or "1K"; 0 for anything else."""
    match = _COUNT.match(text.strip())
    return int(match[1]) * _FACTOR[match[2]] if match else 0


def _indexes(note: str) -> tuple[int, ...] | None:
    """Return (0, 1, 3) for "IDX:0-1,3", () for "IDX:N/A", and None without IDX."""
    if not note.startswith("IDX:"):
        return None
    indexes: list[int] = []
    for part in note.removeprefix("IDX:").split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit() and int(last or first) < 4096:
            indexes += range(int(first), int(last or first) + 1)
    return tuple(indexes)
