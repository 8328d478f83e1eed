"""Parts of GPUs that Slurm counts by themselves.

Shares (Slurm's gres.html, "MPS Management" and "Sharding") are a GRES beside ``gpu``. Here they are
GPU types: "shard.t4" for the shards of T4s, "mps.t4" for quarters of a T4 by MPS, "shard" or "mps"
where Slurm names no type. MIG slices are GPUs of a type of their own in Slurm: "a100_1g.10gb".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

SHARED = ("shard", "mps")
# Slurm's units in one share: gres/mps has 100 for a GPU, unless gres.conf says otherwise.
UNITS = {"shard": 1, "mps": 25}
_SHARE = re.compile(rf"({'|'.join(SHARED)})(?:\.(.+))?")
_SLICE = re.compile(r"(?:^|[_.-])([1-7])g\.([1-9][0-9]{0,2})gb(?:$|[^0-9a-z])", re.IGNORECASE)


class Share(NamedTuple):
    """Type of shares. ``gres``: "shard" or "mps"; ``gpu_type``: of the GPUs, "" if not named."""

    gres: str
    gpu_type: str

    @property
    def name(self) -> str:
        """Name as a GPU type."""
        return f"{self.gres}.{self.gpu_type}" if self.gpu_type else self.gres


class Slice(NamedTuple):
    """MIG slice: its sevenths of the GPU's processors, and its memory in GB."""

    sevenths: int
    memory: int


def share_of(gpu_type: str | None) -> Share | None:
    """Return the shares that a GPU type names; None for whole GPUs and slices."""
    match = _SHARE.fullmatch(gpu_type or "")
    return Share(match[1], match[2] or "") if match else None


def slice_of(gpu_type: str | None) -> Slice | None:
    """Return the MIG slice that a GPU type names; None for all else."""
    match = _SLICE.search(gpu_type or "")
    return Slice(int(match[1]), int(match[2])) if match else None


def gres_request(gpu_type: str, number: int) -> str:
    """Return the value of sbatch's ``--gres`` for ``number`` GPUs or shares of a type."""
    share = share_of(gpu_type)
    if share is None:
        return f"gpu:{gpu_type}:{number}"
    units = number * UNITS[share.gres]
    return f"{share.gres}:{share.gpu_type}:{units}" if share.gpu_type else f"{share.gres}:{units}"


def type_title(gpu_type: str, gpu: str = "") -> str:
    """Return a type's name for pages: "shard of T4" for "shard.t4" if ``gpu`` is "T4"."""
    share = share_of(gpu_type)
    if share is None:
        return gpu or gpu_type
    words = {"shard": "shard", "mps": "MPS quarter"}[share.gres]
    of = gpu or share.gpu_type
    return f"{words} of {of}" if of else words


def title_of(gpu_type: str, titles: Mapping[str, str]) -> str:
    """Return a type's name for people: the site's, or that of a part of a GPU of such a name."""
    share = share_of(gpu_type)
    return titles.get(gpu_type) or type_title(
        gpu_type, titles.get(share.gpu_type, "") if share else ""
    )


def part_words(gpu_type: str, each: int = 0) -> str:
    """Return what such a part is: "MIG slice, 1/7 of a GPU, 10 GB", "1/4 of a GPU, shared"; "" for
    whole GPUs. ``each``: shares of one GPU."""
    if found := slice_of(gpu_type):
        return f"MIG slice, {found.sevenths}/7 of a GPU, {found.memory} GB"
    if share_of(gpu_type) and each:
        return f"1/{each} of a GPU, shared with other jobs" if each > 1 else "a GPU by sharing"
    return ""
