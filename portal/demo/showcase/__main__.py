"""``python -m portal.demo.showcase add|remove``: the demo's past, written to its database or taken
out of it. Run by `portal demo`, as the account of the Hub."""

from __future__ import annotations

import asyncio
import sys

from sqlalchemy import delete, select

from portal.courses.definition.calendar import meetings
from portal.errors import NotFound, PortalError
from portal.models.space import Role
from portal.store import Store
from portal.store.courses.tables import course_seats, course_starts
from portal.store.sessions.sessions import sessions
from portal.store.sessions.usage_tables import days, groups, jobs

from ..course import NAME
from .past import BY, PREFIX, past

_WEEK = 7 * 86400.0
_OVER = 2 * 3600.0  # seconds since a meeting's end: nothing of it goes on


async def write_past(store: Store, now: float) -> None:
    """Write the past of a demo that begins ``now`` (Unix seconds). Raises PortalError."""
    stored = await store.courses.get(NAME)
    members = await store.members.of_space(NAME)
    students = sorted(member.person for member in members if member.role is Role.STUDENT)
    ended = [
        meeting
        for meeting in meetings(stored.course, now - 2 * _WEEK, now)
        if meeting.ends < now - _OVER
    ]
    if not ended:
        raise NotFound(f"The course {NAME} has had no meeting yet.")
    demo_past = past(now, NAME, stored.course.account or NAME, students, ended[-1].begins)
    await store.sessions.save(*demo_past.sessions)
    closed = {(usage.job_id, usage.submitted_at) for usage in demo_past.usage}
    await store.usage.add_seconds(demo_past.usage, closed=closed)
    await store.history.add_samples(*demo_past.history)
    await store.starts.add_start(demo_past.start, demo_past.seats)


async def remove(store: Store, before: float) -> None:
    """Delete all that ``add`` wrote ``before`` (Unix seconds). Raises StoreUnavailable."""
    ours = select(jobs.c.id).where(jobs.c.job_id.startswith(PREFIX))
    starts = select(course_starts.c.id).where(course_starts.c.by == BY)
    statements = (
        delete(sessions).where(sessions.c.id.startswith(PREFIX)),
        delete(days).where(days.c.job.in_(ours)),
        delete(groups).where(groups.c.job.in_(ours)),
        delete(jobs).where(jobs.c.job_id.startswith(PREFIX)),
        delete(course_seats).where(course_seats.c.start_id.in_(starts)),
        delete(course_starts).where(course_starts.c.by == BY),
    )
    await store.database.run(
        lambda to: [to.execute(statement) for statement in statements], write=True
    )
    await store.history.prune(before)


async def _run(action: str, url: str, at: float) -> None:
    store = Store(url=url)
    try:
        await (write_past if action == "add" else remove)(store, at)
    finally:
        await store.close()


def main(arguments: list[str]) -> int:
    """Run ``add|remove URL SECONDS``; return the exit status."""
    action, url, at = arguments
    try:
        asyncio.run(_run(action, url, float(at)))
    except PortalError as error:
        print(error.message, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
