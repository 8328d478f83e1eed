"""Status of a running session for the session itself, from the service's memory. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portal.models.announcement import Announcement
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import Job
from portal.models.cluster.dashboard import GpuItem
from portal.models.session.idle import IdleState
from portal.models.session.move import Move
from portal.models.session.session import SessionRecord
from portal.models.session.usage import JobUsage, SessionReports
from portal.models.situation import ExtendOffer, GpuNow, Message, Situation

from .efficiency import efficiency_of
from .links import spawn_url
from .right_size import hint_for

SIMULATED = "simulated"  # as GpuItem.source says it


@dataclass(frozen=True)
class SessionData:
    """Data on a session beside its record and its job."""

    now: float
    taken_at: float  # the view's, as ``error`` is
    error: str
    prefix: str  # the service's address, with its slashes
    base: str  # the Hub's, with its slashes
    environment: Environment | None  # the catalog's now
    gpus: Sequence[GpuItem] = ()  # those that the job holds
    usage: JobUsage | None = None
    reports: SessionReports | None = None
    simulated: bool = False  # the site's telemetry is
    announcements: Sequence[Announcement] = ()
    warn_minutes: tuple[int, ...] = ()
    extend: ExtendOffer = field(default_factory=ExtendOffer)
    idle: IdleState = field(default_factory=IdleState)
    move: Move | None = None
    told: Mapping[str, Any] = field(default_factory=dict)


def situation_of(record: SessionRecord, job: Job, known: SessionData) -> Situation:
    """Return the situation of the session whose job is ``job``."""
    efficiency = efficiency_of(
        record, known.usage, known.reports, now=known.now, simulated=known.simulated
    )
    running, told = job.state.running, dict(known.told)
    messages: Sequence[Message] = told.pop("messages", ())  # beside the announcements
    return Situation.like(
        known,
        **told,
        session_id=record.id,
        job_id=job.id,
        user=record.user,
        environment=record.environment,
        environment_title=record.environment_title,
        node=job.nodes[0] if job.nodes else "",
        started_at=job.start_time if running else None,
        ends_at=job.end_time if running else None,
        warn_minutes=tuple(sorted(known.warn_minutes, reverse=True)),
        cpus=job.cpus,
        memory=job.memory,
        gpu_type=job.gpu_type,
        gpus=tuple(GpuNow.like(gpu, source=gpu.source or "") for gpu in known.gpus),
        simulated=any(gpu.source == SIMULATED for gpu in known.gpus),
        hint=hint_for(record, efficiency, known.environment),
        announcements=tuple(
            Message.like(announcement)
            for announcement in known.announcements
            if announcement.starts_at <= known.now < announcement.ends_at
        )
        + tuple(messages),
        links={
            "session": f"{known.prefix}sessions/{record.id}",
            "launch": spawn_url(record, known.base, record.again),
            "cluster": known.prefix,
        },
    )
