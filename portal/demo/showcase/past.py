"""Past that a new demo begins with: ended sessions, GPU time and the cluster's history. All of it
is made up, and recorded under job numbers and accounts that say so. Features add to it
(portal/demo/part.py)."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from portal.models.cluster.cluster import Job, JobState
from portal.models.cluster.history import ClusterSample
from portal.models.cluster.job_use import JobUse
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.usage import JobUsage
from portal.sessions.ending import explain
from portal.sessions.gpu_time import by_day
from portal.store import Store

from .series_past import series_of
from .use_past import use_of

PREFIX = "example-"
"""Beginning of the ids of all made up sessions and jobs."""
HOURS = 24  # that the past reaches back
_HOUR, MINUTE = 3600.0, 60.0
_GPUS, _BUSY = 20, 0.7  # of the demo's nodes (deploy/demo/slurm/nodes.conf); share of those held
TITLES = {"jupyterlab": "JupyterLab", "python-venv": "Python (virtual environment)"}
LIMIT = 2 * 3600  # seconds of each session
_MEMORY = 4096  # MiB of each session


@dataclass(frozen=True)
class Example:
    """Example of an ended session, and how it ended."""

    user: str
    ago: float  # hours since it began
    hours: float  # of its duration
    gpus: int = 0
    gpu_type: str = "v100"
    node: str = "cpu01"
    environment: str = "jupyterlab"
    state: JobState = JobState.CANCELLED
    exit_code: int = 0
    stopped_by: str = ""
    log: str = ""
    ready: bool = True
    code: str = ""  # an ending of the portal's own, with its sentence
    message: str = ""
    busy: float = _BUSY  # share of the time for which its GPUs were busy
    peak: int = 1800  # MiB


EXAMPLES = (
    Example("ada", 9.5, 2.0, 2, node="gpu01", state=JobState.TIMEOUT, busy=0.92, peak=3300),
    Example("ada", 6.8, 1.4, 1, node="gpu02", state=JobState.OUT_OF_MEMORY, peak=4096),
    Example("ada", 4.9, 1.1, 1, node="gpu03", stopped_by="ada", busy=0.55),
    Example("ada", 3.2, 0.6, node="cpu01", state=JobState.NODE_FAIL),
    Example("ada", 2.1, 0.9, environment="python-venv", state=JobState.COMPLETED, peak=700),
    Example("barbara", 8.0, 1.8, 4, node="gpu04", stopped_by="barbara", busy=0.81, peak=3600),
    Example(
        *("barbara", 5.5, 1.5, 1, "t4", "gpu05"),
        code="idle",
        message="The session was stopped because its GPUs were not used for 30 minutes.",
        busy=0.04,
    ),
    Example("barbara", 3.0, 0.01, node="cpu02", state=JobState.FAILED, exit_code=1, ready=False),
    Example("grace", 7.2, 1.2, 1, "t4", "gpu06", stopped_by="grace", busy=0.63),
    Example("grace", 2.6, 0.5, environment="python-venv", stopped_by="grace", peak=500),
)


@dataclass(frozen=True)
class Past:
    """Sessions and their GPU time."""

    sessions: list[SessionRecord]
    usage: list[JobUsage]

    async def write(self, store: Store) -> None:
        """Write them. Raises StoreUnavailable."""
        await store.sessions.save(*self.sessions)
        closed = {(usage.job_id, usage.submitted_at) for usage in self.usage}
        await store.usage.add_seconds(self.usage, closed=closed)


@dataclass(frozen=True)
class ClusterPast(Past):
    """Past of the cluster."""

    history: list[ClusterSample]
    uses: list[JobUse]

    async def write(self, store: Store) -> None:
        await super().write(store)
        await store.history.add_samples(*self.history)
        await store.series.add_samples(*self.history)
        await store.job_use.save(self.uses)


def past(now: float) -> ClusterPast:
    """Return the past of a demo that begins ``now`` (Unix seconds)."""
    sessions: list[SessionRecord] = []
    usage: list[JobUsage] = []
    uses: list[JobUse] = []
    for number, example in enumerate(EXAMPLES, 1):
        session = _session(example, number, now)
        sessions.append(session)
        usage.extend(usage_of(session, example.gpus, example.busy))
        uses.append(use_of(session, example.gpus, example.busy, example.peak))
    return ClusterPast(sessions, usage, list(_history(now)), uses)


def _session(example: Example, number: int, now: float) -> SessionRecord:
    started = now - example.ago * _HOUR
    submitted, ended = started - 3, started + example.hours * _HOUR
    job = Job(
        id=f"{PREFIX}{number}",
        user=example.user,
        state=example.state,
        nodes=(example.node,),
        memory=_MEMORY,
        time_limit=LIMIT,
        exit_code=example.exit_code,
        peak_memory=example.peak,
    )
    end = explain(
        job,
        example.log,
        stopped=bool(example.stopped_by),
        ready=example.ready,
        stopped_by=example.stopped_by,
        owner=example.user,
    )
    options = {"environment": example.environment, "cpus": 2, "memory": "4G", "time": "2:00:00"}
    if example.gpus:
        options |= {"gpus": example.gpus, "gpu_type": example.gpu_type}
    return SessionRecord(
        id=job.id,
        user=example.user,
        account="research (example)",
        environment=example.environment,
        environment_title=TITLES[example.environment],
        options=options,
        job_id=job.id,
        state=SessionState.ENDED,
        submitted_at=submitted,
        started_at=started,
        ready_at=started + 3 if example.ready else None,
        ended_at=ended,
        nodes=job.nodes,
        ending_code=example.code or end.code,
        ending_message=example.message or end.message,
        stopped_by=end.by,
        peak_memory=example.peak,
        exit_code=example.exit_code,
        time_limit=LIMIT,
    )


def usage_of(session: SessionRecord, gpus: int, busy: float, **more: Any) -> Iterator[JobUsage]:
    """Yield the GPU time of a session, day by day, with ``more`` fields."""
    assert session.started_at is not None
    assert session.ended_at is not None
    for day, seconds in by_day(session.started_at, session.ended_at) if gpus else ():
        yield JobUsage(
            job_id=session.job_id,
            submitted_at=int(session.submitted_at),
            day=day,
            user=session.user,
            account=session.account,
            environment=session.environment,
            session_id=session.id,
            gpus=gpus,
            held=seconds * gpus,
            used=seconds * gpus * busy,
            measured=seconds * gpus,
            **more,
        )


def _history(now: float) -> Iterator[ClusterSample]:
    """Yield a sample for each minute: those of EXAMPLES, and others that come and go."""
    chance = random.Random(HOURS)  # noqa: S311  the same past in every demo
    others = 4.0
    for minute in range(int(HOURS * 60)):
        at = now - HOURS * _HOUR + minute * MINUTE
        living = [
            example
            for example in EXAMPLES
            if now - example.ago * _HOUR <= at < now - (example.ago - example.hours) * _HOUR
        ]
        wave = 6 + 4 * math.sin(minute / 95)
        others += 0.05 * (wave - others) + chance.uniform(-0.6, 0.6)
        held = sum(example.gpus for example in living)
        allocated = min(_GPUS, held + max(0, round(others)))
        pending, busy = max(0, round(others) - 7), _BUSY + chance.uniform(-0.1, 0.1)
        yield ClusterSample(
            at=at,
            gpus_total=_GPUS,
            gpus_allocated=allocated,
            gpus_busy=round(allocated * busy),
            jobs_running=len(living) + max(0, round(others)),
            jobs_pending=pending,
            sessions_running=len(living),
            series=tuple(series_of(allocated, busy, pending, chance)),
        )
