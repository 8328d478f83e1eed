"""Notices that are due now. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from portal.models.cluster.cluster import Job
from portal.models.session.session import SessionRecord, SessionState

FRESH = 600.0  # seconds after which a session's start is no longer news
STARTED = "started"


@dataclass(frozen=True)
class Notice:
    """Notice to the owner of ``session``. Each new end of the session has its own ``kind``."""

    kind: str
    session: SessionRecord
    ends_at: float | None  # Unix seconds

    @property
    def key(self) -> tuple[str, str]:
        """Key of the notice in the database."""
        return self.session.id, self.kind


def due(
    sessions: Mapping[str, SessionRecord],
    jobs: Mapping[str, Job],
    now: float,
    *,
    waited: float,
    before_end: float,
) -> Iterator[Notice]:
    """Yield the notices that are due now. ``sessions`` are by job id, times are seconds.

    A start is announced if the session waited at least ``waited`` in the queue: after a shorter
    wait the user is still there. The end is announced ``before_end`` in advance, once for each
    end: an extended session gets another notice.
    """
    for job_id, session in sessions.items():
        job = jobs.get(job_id)
        if job_id != session.job_id:
            continue  # one of thousands of tasks of an array
        if session.state is not SessionState.RUNNING or session.ready_at is None or job is None:
            continue
        started = session.started_at if session.started_at is not None else session.ready_at
        ends_at = job.end_time
        if started - session.submitted_at >= waited and 0 <= now - session.ready_at < FRESH:
            yield Notice(STARTED, session, ends_at)
        if ends_at is not None and 0 < ends_at - now <= before_end:
            # The end of a short session is announced in its second half at the earliest.
            if ends_at - now <= (ends_at - started) / 2:
                yield Notice(f"ends-{int(ends_at)}", session, ends_at)
