"""GPU time of jobs: held, used, and measured."""

from __future__ import annotations

from typing import Literal

from .. import Frozen

UsageKey = Literal["user", "group", "environment", "course", "account"]
KEY_WORDS = {"course": "course or project"}  # where the key alone does not say it


class JobUsage(Frozen):
    """GPU time of a job on one UTC day, in GPU-seconds. Sessions' own reports never count here."""

    job_id: str  # identifies the job with ``submitted_at``, since Slurm may reuse ids
    submitted_at: int
    day: str  # "2026-11-21"
    user: str
    account: str = ""
    groups: tuple[str, ...] = ()
    environment: str = ""
    course: str = ""
    session_id: str = ""
    gpus: int = 0
    held: float = 0
    used: float = 0  # busy part of ``measured``
    measured: float = 0  # part of ``held`` for which telemetry has readings


class UsageRow(Frozen):
    """Usage of one ``key`` (such as a user or an environment) in one period, in GPU-hours.

    ``period`` is "2026-W47" or "2026-11". ``used_hours`` and ``idle_hours`` are None if nothing
    was measured; ``measured_share`` (0 to 1) is the measured part of the held time.
    """

    key: str
    period: str
    jobs: int
    held_hours: float
    used_hours: float | None
    idle_hours: float | None
    measured_share: float


class SessionReports(Frozen):
    """Totals of a session's reports about itself: shown to its owner, never accounted.

    Seconds are summed over all its GPUs; memory in MiB, None: never known.
    """

    session_id: str
    reports: int
    gpu_seconds: float
    busy_seconds: float
    peak_memory: int | None = None
    peak_gpu_memory: int | None = None
    last_at: float
