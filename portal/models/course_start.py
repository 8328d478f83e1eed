"""Sessions that are started for a whole course, and how far each is."""

from __future__ import annotations

from enum import StrEnum

from . import Frozen


class StartKind(StrEnum):
    """Why sessions are started."""

    MEETING = "meeting"  # ahead of a meeting, by the calendar
    ALL = "all"  # an instructor pressed "Start all"
    REHEARSAL = "rehearsal"  # sessions that are thrown away


class SeatState(StrEnum):
    """How far one person's session of a start is."""

    WAITING = "waiting"  # its turn has not come
    STARTING = "starting"  # the Hub was asked
    READY = "ready"
    CLAIMED = "claimed"  # its student has opened it
    RELEASED = "released"  # nobody came, or the rehearsal is over: it was stopped
    FAILED = "failed"
    SKIPPED = "skipped"  # one ran already, or it was called off


OVER = frozenset({SeatState.CLAIMED, SeatState.RELEASED, SeatState.FAILED, SeatState.SKIPPED})


class Seat(Frozen):
    """One person's session of a start. Times are Unix seconds; ``message`` says why."""

    start_id: int
    person: str
    state: SeatState = SeatState.WAITING
    message: str = ""
    asked_at: float | None = None
    ready_at: float | None = None
    ended_at: float | None = None


class CourseStart(Frozen):
    """``meeting_at``: when the meeting begins, for StartKind.MEETING; ``release_at``: when seats
    that nobody claimed are stopped, None for never. ``ended_at``: nothing is left to do."""

    id: int = 0
    course: str
    kind: StartKind
    by: str
    asked_at: float
    meeting_at: float | None = None
    release_at: float | None = None
    ended_at: float | None = None
    message: str = ""
