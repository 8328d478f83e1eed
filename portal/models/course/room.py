"""A course's room: a session of its staff that everyone in the course may enter."""

from __future__ import annotations

from .. import Frozen
from ..session.session import SessionState


class Room(Frozen):
    """``state`` None: there is none now. Times are Unix seconds.

    ``url``: where it is entered, "" until it runs. ``people``: who has it open in a browser, by
    name. ``why_not``: the sentence why none can be opened, "" where staff can.
    """

    course: str
    state: SessionState | None = None
    by: str = ""  # who opened it, and whose session it is
    server: str = ""
    session_id: str = ""
    asked_at: float | None = None
    since: float | None = None  # it runs
    ends_at: float | None = None
    url: str = ""
    people: tuple[str, ...] = ()
    why_not: str = ""
