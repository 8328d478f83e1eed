"""Starts of sessions for a whole course, and their progress."""

from __future__ import annotations

from enum import StrEnum

from .. import Frozen


class StartKind(StrEnum):
    """Reason for starting sessions."""

    MEETING = "meeting"  # ahead of a meeting, by the calendar
    ALL = "all"  # an instructor pressed "Start all"
    REHEARSAL = "rehearsal"  # sessions that are thrown away


class SeatState(StrEnum):
    """State of one person's session of a start."""

    WAITING = "waiting"  # its turn has not come
    STARTING = "starting"  # the Hub was asked
    READY = "ready"
    CLAIMED = "claimed"  # its student has opened it
    RELEASED = "released"  # nobody came, or the rehearsal is over: it was stopped
    FAILED = "failed"
    SKIPPED = "skipped"  # a session ran already, or the start was cancelled


OVER = frozenset({SeatState.CLAIMED, SeatState.RELEASED, SeatState.FAILED, SeatState.SKIPPED})


class Seat(Frozen):
    """Session of one person in a start. Times are Unix seconds; ``message`` explains the state."""

    start_id: int
    person: str
    state: SeatState = SeatState.WAITING
    message: str = ""
    asked_at: float | None = None
    ready_at: float | None = None
    ended_at: float | None = None


class CourseStart(Frozen):
    """Start of sessions for a course. ``meeting_at``: time at which the meeting begins, for
    StartKind.MEETING; ``release_at``: time at which unclaimed seats are stopped, None: never.
    ``ended_at``: time since which nothing is left to do."""

    id: int = 0
    course: str
    kind: StartKind
    by: str
    asked_at: float
    meeting_at: float | None = None
    release_at: float | None = None
    ended_at: float | None = None
    message: str = ""


class Count(Frozen):
    """Number of occurrences of a reason, given in words."""

    words: str
    number: int


class StartReport(Frozen):
    """Result of a start. ``median`` and ``last`` are seconds from the request until a session was
    ready, over those that were; None: no session was.

    ``failures``: reasons why sessions did not start, most frequent first; ``missing``: sentences
    on what was not as it should be for the course.
    """

    total: int
    ready: int
    failed: int
    skipped: int
    left: int  # neither ready nor failed yet
    median: float | None = None
    last: float | None = None
    failures: tuple[Count, ...] = ()
    missing: tuple[str, ...] = ()


class ReservationState(StrEnum):
    """State of a meeting's reservation."""

    PLANNED = "planned"  # its time has not come
    ASKED = "asked"  # requested from Slurm, now or when the service ended
    MADE = "made"
    REFUSED = "refused"


class StoredReservation(Frozen):
    """Reservation that the portal made, or tried to make, for one meeting. Times are Unix seconds.

    ``name`` is Slurm's; ``spec`` is the last request, so that a change is noticed; ``message``:
    why it was refused or is not as it should be; ``at``: time of the last request to Slurm.
    """

    name: str
    course: str
    meeting_at: float
    state: ReservationState
    message: str = ""
    spec: str = ""
    at: float
