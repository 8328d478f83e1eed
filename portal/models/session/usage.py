"""GPU time of jobs: held, used, and how much of it was measured."""

from __future__ import annotations

from .. import Frozen


class JobUsage(Frozen):
    """One job's GPU time on one UTC day (``day``: "2026-11-21"), in GPU-seconds.

    ``measured`` is the part of ``held`` for which telemetry said what the GPU did, ``used`` the
    busy part of that. Sessions' own reports never count here. ``job_id`` and ``submitted_at``
    name the job together, since Slurm may count ids anew.
    """

    job_id: str
    submitted_at: int
    day: str
    user: str
    account: str = ""
    groups: tuple[str, ...] = ()
    environment: str = ""
    course: str = ""
    session_id: str = ""
    gpus: int = 0
    held: float = 0
    used: float = 0
    measured: float = 0


class UsageRow(Frozen):
    """Usage of one ``key`` (a user, group, environment or course) in one period, in GPU-hours.

    ``period`` is "2026-W47" or "2026-11". ``used_hours`` and ``idle_hours`` are None where nothing
    was measured; ``measured_share`` (0 to 1) says how much of what was held was measured.
    """

    key: str
    period: str
    jobs: int
    held_hours: float
    used_hours: float | None
    idle_hours: float | None
    measured_share: float


class SessionReports(Frozen):
    """What a session said about itself, summed: shown to its owner, never accounted.

    Seconds of all its GPUs together; memory in MiB, None where it never knew.
    """

    session_id: str
    reports: int
    gpu_seconds: float
    busy_seconds: float
    peak_memory: int | None = None
    peak_gpu_memory: int | None = None
    last_at: float
