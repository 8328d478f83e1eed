"""Specifications of GPUs (deploy/gpus.toml), and the share of a peak that a result reaches."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from portal.models import Frozen
from portal.paths import data_path

FILE = "gpus.toml"  # of deploy/
Peak = Literal["", "bandwidth", "fp64", "fp32", "tf32", "bf16", "fp16", "int8"]
# Slices of a GPU, such as "1g.5gb": they have a part of its cores and memory.
_SLICE = re.compile(r"\d+g\.\d+gb|shard|mps")


class GpuSpecification(Frozen):
    """Numbers of a card's data sheet, as deploy/gpus.toml explains them; None: not in it."""

    title: str
    names: tuple[str, ...]
    devices: int = 1
    memory: float
    cores: int
    bandwidth: float
    watts: float
    fp64: float | None = None
    fp32: float | None = None
    tf32: float | None = None
    bf16: float | None = None
    fp16: float | None = None
    int8: float | None = None
    source: str

    def peak(self, name: Peak) -> float | None:
        """Return what one GPU, as Slurm counts them, can do at most: operations or bytes per
        second. None: unknown."""
        value: float | None = getattr(self, name) if name else None
        unit = 1e9 if name == "bandwidth" else 1e12
        return None if value is None else value * unit / self.devices


@lru_cache(maxsize=1)
def specifications() -> tuple[GpuSpecification, ...]:
    """Return the GPUs of the file, in its order. Blocks for the first read."""
    text = (data_path("deploy") / FILE).read_text(encoding="utf-8")
    return tuple(map(GpuSpecification.model_validate, tomllib.loads(text)["gpu"]))


def specification_for(gpu_type: str, known: Sequence[GpuSpecification]) -> GpuSpecification | None:
    """Return the entry for Slurm's GPU type, such as "v100" or "nvidia_a100_80gb_pcie"; None for a
    type that none is for, and for slices of a GPU."""
    lower = gpu_type.lower()
    if _SLICE.search(lower):
        return None
    words = set(re.split(r"[^a-z0-9]+", lower))
    fitting = [
        (len(name.split()), entry)
        for entry in known
        for name in entry.names
        if words >= set(name.split())
    ]
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


def share_of_peak(
    value: float, gpus: int, peak: Peak, operations: float, entry: GpuSpecification | None
) -> float | None:
    """Return the part of the peak of ``gpus`` GPUs that ``value``, each with this many
    ``operations``, reaches: 0.5 is half. None: not known."""
    most = entry.peak(peak) if entry is not None else None
    if not most or not gpus or not operations:
        return None
    return value * operations / (most * gpus)
