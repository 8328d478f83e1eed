"""Result of a start: how many were ready, when, and why others were not. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from portal.models.course.start import Count, CourseStart, Seat, SeatState, StartKind, StartReport

PATIENCE = 900.0  # seconds after which a rehearsal's sessions are ready or never will be
_NO_REASON = "The session did not start, for an unknown reason."
_LEFT = frozenset({SeatState.WAITING, SeatState.STARTING})


def report(start: CourseStart, seats: Sequence[Seat], missing: Sequence[str] = ()) -> StartReport:
    """Return the report of ``start``; seconds count from its request."""
    ready = sorted(max(0.0, seat.ready_at - start.asked_at) for seat in seats if seat.ready_at)
    failed = [seat for seat in seats if seat.state is SeatState.FAILED]
    reasons = Counter(seat.message or _NO_REASON for seat in failed)
    return StartReport(
        total=len(seats),
        ready=len(ready),
        failed=len(failed),
        skipped=sum(seat.state is SeatState.SKIPPED for seat in seats),
        left=sum(seat.state in _LEFT for seat in seats),
        median=median(ready) if ready else None,
        last=ready[-1] if ready else None,
        failures=tuple(
            Count(words=words, number=number) for words, number in reasons.most_common()
        ),
        missing=tuple(missing),
    )


def due_to_end(start: CourseStart, seats: Sequence[Seat], age: float) -> bool:
    """Return True if a rehearsal has shown what it could: all are ready or not, or its time is up.
    ``age``: seconds since its request."""
    if start.kind is not StartKind.REHEARSAL:
        return False
    return age > PATIENCE or not any(seat.state in _LEFT for seat in seats)
