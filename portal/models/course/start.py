"""Sessions that are started for a whole course, and how far each is."""

from __future__ import annotations

from enum import StrEnum

from .. import Frozen


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


class Count(Frozen):
    """How often something was so, in words."""

    words: str
    number: int


class StartReport(Frozen):
    """What came of a start. ``median`` and ``last`` are seconds from the press of the button until
    a session was ready, of those that were; None where none was.

    ``failures``: why sessions did not start, the most frequent reason first; ``missing``: what was
    not as it should be for the course, in sentences.
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
    """How far one meeting's reservation is."""

    PLANNED = "planned"  # its time has not come
    ASKED = "asked"  # Slurm is being asked, or was when the service ended
    MADE = "made"
    REFUSED = "refused"


class KeptReservation(Frozen):
    """What the portal reserved, or tried to, for one meeting. Times are Unix seconds.

    ``name`` is Slurm's; ``spec`` what was last asked for, so that a change is noticed; ``message``
    why it was refused or is not as it should be, in words; ``at``: when Slurm was asked last.
    """

    name: str
    course: str
    meeting_at: float
    state: ReservationState
    message: str = ""
    spec: str = ""
    at: float
