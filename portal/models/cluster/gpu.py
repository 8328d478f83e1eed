"""State of a GPU on the cluster page, and telemetry's reading of a GPU."""

from __future__ import annotations

from enum import StrEnum

from .. import Frozen


class GpuState(StrEnum):
    """State of a GPU, as far as Slurm and telemetry tell."""

    FREE = "free"  # a job can have it
    ALLOCATED = "allocated"  # a job holds it; whether it is used is not known
    BUSY = "busy"  # a job holds it and uses it
    IDLE = "idle"  # a job holds it and does not use it
    OFF = "off"  # free, on a node that is switched on when a job needs it
    DRAINED = "drained"  # free, but its node takes no jobs: drained, reserved for maintenance…
    DOWN = "down"  # its node is down or does not answer
    UNKNOWN = "unknown"  # Slurm does not say whether it is held


class GpuUse(Frozen):
    """Use of a GPU. None: unknown, never 0.

    ``index`` is Slurm's on that node; ``utilization`` in percent; memory in MiB.
    """

    node: str
    index: int
    utilization: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None


class GpuReading(GpuUse):
    """Reading of a GPU at ``at`` (Unix seconds). ``source`` is "dcgm", "amd", "session" or
    "simulated"; ``power`` in watts. A GPU in MIG mode has no utilisation of its own."""

    at: float
    source: str
    power: float | None = None
    uuid: str = ""
    mig: bool = False
