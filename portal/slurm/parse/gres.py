"""GRES and TRES strings, in every form that Slurm 22.05 to 26.05 writes.

Nodes: ``gpu:v100:4(S:0-1)``, used: ``gpu:v100:2(IDX:0-1)``, ``gpu:(null):4(IDX:0-3)``,
``gpu:v100:0(IDX:N/A)``. TRES: ``cpu=2,gres/gpu=2,gres/gpu:v100=2``. Requests: ``gres:gpu:v100:2``
(22.05), ``gres/gpu:v100:2`` (newer), ``gpu:2``. Shares of GPUs: ``shard:t4:1(IDX:0)`` (22.05),
``shard:t4:2(2/4,0/4)`` (newer: of each GPU, the shares in use and all); the same for ``mps``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from ...models.cluster.cluster import GpuPool
from ...models.cluster.gpu_share import SHARED, UNITS, Share

_ENTRY = re.compile(r"([^,()=]+(?:\(null\)[^,()=]*)?)(?:\(([^)]*)\))?(?:=([^,()]+))?(?:,|$)")
# Shares of each GPU in use, and all; "-" if a job has the GPU as a whole (Slurm 26.05).
_SHARES = re.compile(r"(\d+|-)/\d+(,(\d+|-)/\d+)*")
_COUNT = re.compile(r"(\d+)([KMGT]?)$")
_FACTOR = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
UNNAMED = "gpu"  # the type of GPUs where Slurm names none


class Gpus(NamedTuple):
    """GPUs of one type: their number, and their indexes if Slurm gave them."""

    type: str
    number: int
    indexes: tuple[int, ...] | None


@lru_cache(maxsize=8192)
def gpus(text: str, name: str = "gpu") -> tuple[Gpus, ...]:
    """Return the GPUs of a GRES string, one entry per type in Slurm's order; no other GRES.

    ``name``: "shard" or "mps" for shares of GPUs, with the indexes of the GPUs.
    """
    by_type: dict[str, Gpus] = {}
    for entry, note, _ in _ENTRY.findall(text):
        parts = re.split(r"[:/]", entry.strip())
        if parts and parts[0] == "gres":
            parts = parts[1:]
        if not parts or parts[0] != name:
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


@lru_cache(maxsize=8192)
def tres_shares(text: str) -> dict[str, int]:
    """Return the shares in a TRES string: {"shard": 2}. It has them only if Slurm accounts for
    them (AccountingStorageTRES)."""
    named = tres(text)
    return {name: amount(named[f"gres/{name}"]) for name in SHARED if f"gres/{name}" in named}


def pools(gres: str, used: str) -> tuple[GpuPool, ...]:
    """Return the GPU pools of a node from its ``Gres=`` and ``GresUsed=``. A GPU of which shares
    are in use is in use: nobody else gets it whole.

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
    for name in SHARED:
        there = {part.type: part.number for part in gpus(gres, name)}
        for part in gpus(used, name):
            if part.number:
                node_pools = _with_shares(node_pools, part, there.get(part.type, 0))
    return tuple(node_pools)


def shares(gres: str, used: str) -> tuple[GpuPool, ...]:
    """Return the pools of shares of a node's GPUs from its ``Gres=`` and ``GresUsed=``.

    A GPU that a job has as a whole has no free shares.
    """
    made = []
    for name in SHARED:
        using = {part.type: part for part in gpus(used, name)}
        uncounted = bool(re.search(rf"(?:^|,){name}:[^,()]*\(IDX:\d", used))
        for part in gpus(gres, name):
            typed = part.type != UNNAMED
            number = _number(gres, part.type if typed else "")
            each = part.number // number // UNITS[name] if number else 0
            if not each:
                continue
            use = using.get(part.type)
            whole = _number(used, part.type if typed else "")
            held = use.number if use else 0
            taken = held * each if uncounted else -(-held // UNITS[name])
            made.append(
                GpuPool.trusted(
                    type=Share(name, part.type if typed else "").name,
                    count=number * each,
                    used=min(number * each, whole * each + taken),
                    each=each,
                    uncounted=held if uncounted else 0,
                )
            )
    return tuple(made)


def _number(text: str, gpu_type: str) -> int:
    """Return the number of GPUs of a type ("": any) in a GRES string."""
    return sum(pool.number for pool in gpus(text) if gpu_type in ("", pool.type))


def _with_shares(node_pools: list[GpuPool], part: Gpus, there: int) -> list[GpuPool]:
    """Return the pools with the GPUs of which shares are in use. ``there``: all such shares."""
    changed, first = [], 0
    own = {pool.type for pool in node_pools} & {part.type}
    for pool in node_pools:
        last = first + pool.count
        if own and pool.type not in own:
            indexes: tuple[int, ...] | None = ()
        elif own or len(node_pools) == 1 or part.indexes is None:
            indexes = part.indexes
        else:
            indexes = tuple(index for index in part.indexes if first <= index < last)
        # Without indexes: as many as hold so many shares at least.
        each = max(1, there // max(1, pool.count))
        number = -(-part.number // each) if indexes is None else len(indexes)
        known = None if indexes is None or pool.used_indexes is None else pool.used_indexes
        changed.append(
            pool.altered(
                used=min(pool.count, pool.used + number),
                used_indexes=None if known is None else (*known, *(indexes or ())),
                shared_indexes=(*pool.shared_indexes, *(indexes or ())),
            )
        )
        first = last
    return changed


def amount(text: str) -> int:
    """Return the number of "2" or "1K"; 0 for anything else."""
    match = _COUNT.match(text.strip())
    return int(match[1]) * _FACTOR[match[2]] if match else 0


def _indexes(note: str) -> tuple[int, ...] | None:
    """Return (0, 1, 3) for "IDX:0-1,3", () for "IDX:N/A", (0,) for "2/4,0/4" and "2/4,-/4", else
    None."""
    if _SHARES.fullmatch(note):
        shares = (share.partition("/")[0] for share in note.split(","))
        return tuple(index for index, used in enumerate(shares) if used not in ("-", "0"))
    if not note.startswith("IDX:"):
        return None
    indexes: list[int] = []
    for part in note.removeprefix("IDX:").split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit() and int(last or first) < 4096:
            indexes += range(int(first), int(last or first) + 1)
    return tuple(indexes)
