"""What there is to tell about which session, now. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from portal.models.cluster.cluster import Job
from portal.models.session.session import SessionRecord, SessionState

FRESH = 600.0  # seconds after which it is no news any more that a session has started
STARTED = "started"


@dataclass(frozen=True)
class Notice:
    """One thing to tell the owner of ``session``. ``kind`` is another one for each new end."""

    kind: str
    session: SessionRecord
    ends_at: float | None  # Unix seconds

    @property
    def key(self) -> tuple[str, str]:
        """What it is known by in the database."""
        return self.session.id, self.kind


def due(
    sessions: Mapping[str, SessionRecord],
    jobs: Mapping[str, Job],
    now: float,
    *,
    waited: float,
    before_end: float,
) -> Iterator[Notice]:
    """The notices of now. ``sessions`` are by job id, times are seconds.

    A start is told where the session waited at least ``waited`` in the queue: who waited less is
    still there. The end is told ``before_end`` before it, once for each end: an extended session
    gets another notice.
    """
    for job_id, session in sessions.items():
        job = jobs.get(job_id)
        if session.state is not SessionState.RUNNING or session.ready_at is None or job is None:
            continue
        started = session.started_at if session.started_at is not None else session.ready_at
        ends_at = job.end_time
        if started - session.submitted_at >= waited and 0 <= now - session.ready_at < FRESH:
            yield Notice(STARTED, session, ends_at)
        if ends_at is not None and 0 < ends_at - now <= before_end:
            # A short session is told of in its second half at the earliest.
            if ends_at - now <= (ends_at - started) / 2:
                yield Notice(f"ends-{int(ends_at)}", session, ends_at)
