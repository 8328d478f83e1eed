"""Use over time of the sessions of the made up past."""

from __future__ import annotations

import math

from portal.models.cluster.job_use import JobUse
from portal.models.session.session import SessionRecord

_MOST = 60  # stretches of a session
_GPU_MEMORY = 14_000  # MiB of each GPU


def use_of(session: SessionRecord, gpus: int, busy: float, peak: int) -> JobUse:
    """Return the use of a session with so many GPUs, which were ``busy`` for this share of it, and
    whose memory grew to ``peak`` (MiB)."""
    assert session.started_at is not None
    assert session.ended_at is not None
    minutes = max(1, math.ceil((session.ended_at - session.started_at) / 60))
    steps = range(min(_MOST, minutes))
    loads = tuple(
        round(min(100, 92 * busy + 25 * (1 - busy) * math.sin(step / 3 + len(session.id))))
        for step in steps
    )
    return JobUse(
        job_id=session.job_id,
        began_at=int(session.started_at),
        seconds=60 * minutes // len(steps),
        sources="simulated",
        gpu=tuple(max(0, load) for load in loads) if gpus else (),
        gpu_memory=(gpus * _GPU_MEMORY,) * len(steps) if gpus else (),
        memory=tuple(round(peak * (0.3 + 0.7 * step / len(steps))) for step in steps),
        last_at=session.ended_at,
    )
