"""Specifications of GPUs (deploy/gpus.toml), and the share of a peak that a result reaches."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError

from portal.errors import ConfigurationError
from portal.models import Frozen
from portal.paths import data_path

FILE = "gpus.toml"  # of deploy/
Peak = Literal["", "bandwidth", "fp64", "fp32", "tf32", "bf16", "fp16", "int8"]
# Slices of a GPU, such as "1g.5gb": they have a part of its cores and memory.
_SLICE = re.compile(r"\d+g\.\d+gb|shard|mps")
_Number = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(gt=0)]


class GpuSpecification(Frozen):
    """Numbers of a card's data sheet, as deploy/gpus.toml explains them; None: not in it."""

    title: str
    names: tuple[Annotated[str, StringConstraints(pattern=r"\S")], ...]
    detected: tuple[str, ...] = ()
    devices: _Count = 1
    memory: _Number
    cores: _Count | None = None
    bandwidth: _Number
    watts: _Number
    fp64: _Number | None = None
    fp32: _Number | None = None
    tf32: _Number | None = None
    bf16: _Number | None = None
    fp16: _Number | None = None
    int8: _Number | None = None
    source: str

    def peak(self, name: Peak) -> float | None:
        """Return what one GPU, as Slurm counts them, can do at most: operations or bytes per
        second. None: unknown."""
        value: float | None = getattr(self, name) if name else None
        unit = 1e9 if name == "bandwidth" else 1e12
        return None if value is None else value * unit / self.devices


@lru_cache(maxsize=1)
def specifications() -> tuple[GpuSpecification, ...]:
    """Return the GPUs of the file, in its order. Blocks for the first read. Raises
    ConfigurationError for a file that an admin has edited and broken."""
    path = data_path("deploy") / FILE
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["gpu"]
        return tuple(map(GpuSpecification.model_validate, entries))
    except OSError as error:
        problem = str(error.strerror)
    except ValidationError as error:
        wrong = error.errors()[0]
        problem = f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"
    except (ValueError, KeyError, TypeError) as error:  # no TOML, no list of tables
        problem = f"{type(error).__name__}: {error}"
    raise ConfigurationError(f"{path} cannot be read: {problem}. Correct it, or restore its copy.")


def known_specifications() -> tuple[GpuSpecification, ...]:
    """Return the GPUs of the file; none if it is broken, so that results have no shares then."""
    try:
        return specifications()
    except ConfigurationError:
        return ()


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
