"""Efficiency of sessions: requested and used resources. Pure; None: not measured, never 0."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from portal.models import Frozen
from portal.models.session.resources import memory_mib, time_seconds
from portal.models.session.session import SessionRecord
from portal.models.session.usage import JobUsage, SessionReports


class Source(StrEnum):
    """Source of a measurement."""

    TELEMETRY = "telemetry"  # the site's, which usage is counted from
    SIMULATED = "simulated"  # the demo's
    SESSION = "session"  # the session itself: shown to its owner, counted nowhere
    SLURM = "slurm"  # accounting


class Efficiency(Frozen):
    """GPU time in GPU-hours, memory in MiB per node, times in seconds, shares from 0 to 1.

    ``gpu_hours_used`` and ``gpu_busy_share`` refer to the measured part, whose share of the held
    time is ``gpu_measured_share``. ``…_source``: source of the measurement; None: not measured.
    ``time_asked`` is what its launch requested, ``time_limit`` what it had, extensions included.
    """

    gpus: int | None = None
    gpu_hours_held: float | None = None
    gpu_hours_used: float | None = None
    gpu_busy_share: float | None = None
    gpu_measured_share: float | None = None
    gpu_source: Source | None = None
    gpu_memory_peak: int | None = None  # MiB of all its GPUs together, as the session reports it
    memory_peak: int | None = None
    memory_asked: int | None = None
    memory_source: Source | None = None
    time_used: float | None = None
    time_asked: int | None = None
    time_limit: int | None = None


def efficiency_of(
    record: SessionRecord,
    usage: JobUsage | None,
    reports: SessionReports | None,
    *,
    now: float,
    simulated: bool = False,
    time_limit: int | None = None,
) -> Efficiency:
    """Compute the efficiency from accounting (``usage``) and the session's own ``reports``.

    ``simulated``: the site's telemetry is simulated. ``time_limit``: its job's now, in seconds, if
    known from Slurm. The session's own reports count only if there is no better source.
    """
    ended = record.ended_at if record.ended_at is not None else now
    time_used = None if record.started_at is None else max(0.0, ended - record.started_at)
    gpus = _gpus(record.options)
    held = usage.held if usage and usage.held else None
    if held is None and gpus is not None and time_used is not None:
        held = gpus * time_used  # the meter writes once a minute
    asked = _duration(record.options.get("time"))
    measured: dict[str, Any] = {}
    if usage and usage.measured > 0:
        measured = _gpu(usage.used, usage.measured, held)
        measured["gpu_source"] = Source.SIMULATED if simulated else Source.TELEMETRY
    elif reports and reports.gpu_seconds > 0:
        measured = _gpu(reports.busy_seconds, reports.gpu_seconds, held)
        measured["gpu_source"] = Source.SESSION
    if reports:
        measured["gpu_memory_peak"] = reports.peak_gpu_memory
    if record.peak_memory is not None:
        measured |= {"memory_peak": record.peak_memory, "memory_source": Source.SLURM}
    elif reports and reports.peak_memory is not None:
        measured |= {"memory_peak": reports.peak_memory, "memory_source": Source.SESSION}
    return Efficiency(
        gpus=gpus,
        gpu_hours_held=None if held is None else held / 3600,
        memory_asked=_size(record.options.get("memory")),
        time_used=time_used,
        time_asked=asked,
        time_limit=time_limit or record.time_limit or asked,
        **measured,
    )


def _gpu(used: float, measured: float, held: float | None) -> dict[str, Any]:
    return {
        "gpu_hours_used": used / 3600,
        "gpu_busy_share": min(1.0, used / measured),
        "gpu_measured_share": min(1.0, measured / held) if held else None,
    }


def _gpus(options: dict[str, Any]) -> int | None:
    """Return the number of GPUs over all nodes; None if the options do not say."""
    gpus, nodes = options.get("gpus"), options.get("nodes", 1)
    return gpus * nodes if isinstance(gpus, int) and isinstance(nodes, int) else None


def _size(text: object) -> int | None:
    try:
        return memory_mib(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _duration(text: object) -> int | None:
    try:
        return time_seconds(text) if isinstance(text, str) else None
    except ValueError:
        return None
