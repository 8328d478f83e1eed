"""Messages to everyone in a course, shown in JupyterLab until they expire."""

from __future__ import annotations

from portal.errors import Conflict
from portal.models.course.live import CourseMessage
from portal.store import Store

MOST = 10  # that are shown at the same time


async def post(
    store: Store, course: str, text: str, minutes: int, by: str, now: float
) -> CourseMessage:
    """Show ``text`` to everyone in ``course`` for ``minutes`` from ``now`` on (Unix seconds).

    Raises Conflict if the maximum number of messages is shown already; StoreUnavailable.
    """
    active_messages = [
        posted for posted in await store.course_messages.active(now) if posted.course == course
    ]
    if len(active_messages) >= MOST:
        raise Conflict(f"{MOST} messages are already shown. Withdraw one of them first.")
    message = CourseMessage(course=course, text=text, by=by, at=now, ends_at=now + 60 * minutes)
    return await store.course_messages.add_row(message)
