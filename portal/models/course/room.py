"""Room of a course: a session of its staff that everyone in the course may enter."""

from __future__ import annotations

from .. import Frozen
from ..session.session import SessionState


class Room(Frozen):
    """Room of a course. ``state`` None: there is none now. Times are Unix seconds.

    ``url``: its entrance, "" until it runs. ``people``: names of those who have it open in a
    browser. ``why_not``: sentence why none can be opened, "" if staff can.
    """

    course: str
    state: SessionState | None = None
    by: str = ""  # who opened it, and whose session it is
    server: str = ""
    session_id: str = ""
    asked_at: float | None = None
    since: float | None = None  # time since which it runs
    ends_at: float | None = None
    url: str = ""
    people: tuple[str, ...] = ()
    why_not: str = ""
