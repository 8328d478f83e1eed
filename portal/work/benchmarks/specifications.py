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
    detected: tuple[str, ...] = ()
    devices: int = 1
    memory: float
    cores: int | None = None
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


def cards_of(gpu_type: str, known: Sequence[GpuSpecification]) -> list[GpuSpecification]:
    """Return the entries of the cards that Slurm's GPU type, such as "v100" or
    "nvidia_a100_80gb_pcie", can be. None for a type that no entry is for, and for slices of a
    GPU."""
    lower = gpu_type.lower()
    if _SLICE.search(lower):
        return []
    if detected := [entry for entry in known if lower in entry.detected]:
        return detected
    words = set(re.split(r"[^a-z0-9]+", lower))
    names = [(entry, name.split()) for entry in known for name in entry.names]
    possible = []
    for entry, (model, *own) in names:
        others = {word for _, (other, *rest) in names if other == model for word in rest}
        if model in words and words & others <= set(own):
            possible.append(entry)
    return possible


def share_of_peak(
    value: float, gpus: int, peak: Peak, operations: float, cards: Sequence[GpuSpecification]
) -> float | None:
    """Return the part of the peak of ``gpus`` GPUs that ``value``, each with this many
    ``operations``, reaches: 0.5 is half. ``cards``: those that the GPUs can be. None: not known, or
    not the same for all of these."""
    peaks = {entry.peak(peak) for entry in cards}
    most = peaks.pop() if len(peaks) == 1 else None
    if not most or not gpus or not operations:
        return None
    return value * operations / (most * gpus)
