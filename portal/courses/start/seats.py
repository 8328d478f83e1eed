"""Seats: one person's session of a start, updated by what is known of it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from portal.models.course.live import Presence
from portal.models.course.start import Seat, SeatState, StartKind
from portal.models.session.session import SessionRecord, SessionState

# Endings (portal.sessions.ending.TITLES) that nobody wanted.
_FAILED = frozenset(
    {"start_failed", "failed", "out_of_memory", "node_failure", "preempted", "unknown"}
)
LOST = "Slurm lost the job, so the session is started again."
LIVE = frozenset({SeatState.WAITING, SeatState.STARTING, SeatState.READY})


def server_of(course: str, kind: StartKind) -> str:
    """Return the name of the servers that such a start requests."""
    return f"{'rehearsal' if kind is StartKind.REHEARSAL else 'course'}-{course}"


def newest(records: Iterable[SessionRecord], server: str) -> dict[str, list[SessionRecord]]:
    """Return each person's sessions in the server of that name, newest first."""
    by_person: dict[str, list[SessionRecord]] = {}
    for session in sorted(records, key=lambda record: -record.submitted_at):
        if session.server == server:
            by_person.setdefault(session.user, []).append(session)
    return by_person


def session_of(
    seat: Seat, records: Sequence[SessionRecord], before: Collection[str] = (), known: str = ""
) -> SessionRecord | None:
    """Return the session that was started for this seat; None before the Hub has reported one.

    ``records``: this person's in the server, newest first; ``before``: ids of sessions that
    existed before the seat was requested, which are others; ``known``: id of the one found
    earlier. A server has one session at a time, so one that lives is this seat's, whatever the
    clocks say. Of those that have ended unseen, what was submitted before the seat was requested
    is another; submissions count in seconds.
    """
    asked = seat.asked_at
    if asked is None:
        return None
    candidates = [record for record in records if record.id not in before]
    matches = [record for record in candidates if record.state is not SessionState.ENDED]
    matches += [record for record in candidates if record.id == known]
    matches += [record for record in candidates if record.submitted_at >= asked // 1]
    return next(iter(matches), None)


def seen(seat: Seat, record: SessionRecord | None, presence: Presence | None, now: float) -> Seat:
    """Return the seat, updated from its session."""
    if record is None or seat.state not in (SeatState.STARTING, SeatState.READY):
        return seat
    if record.ready_at is not None and seat.state is SeatState.STARTING:
        seat = changed(seat, SeatState.READY, ready_at=record.ready_at)
    if record.state is SessionState.ENDED:
        return _ended(seat, record, now)
    if seat.state is SeatState.READY and opened(record, presence):
        return changed(seat, SeatState.CLAIMED, ended_at=now)
    return seat


def lost(seat: Seat, record: SessionRecord | None) -> bool:
    """Return True if Slurm has forgotten the job: the session is gone, and nobody wanted that."""
    return (
        record is not None
        and seat.state in (SeatState.STARTING, SeatState.READY)
        and record.state is SessionState.ENDED
        and record.ending_code == "unknown"
    )


def opened(record: SessionRecord, presence: Presence | None) -> bool:
    """Return True if its owner has had this session in a browser."""
    return (
        presence is not None and presence.session_id == record.id and presence.opened_at is not None
    )


def _ended(seat: Seat, record: SessionRecord, now: float) -> Seat:
    at = record.ended_at or now
    words = record.ending_message
    if record.ending_code in _FAILED or not record.ending_code:
        return changed(seat, SeatState.FAILED, words or "The session ended.", ended_at=at)
    if seat.state is SeatState.READY:
        return changed(seat, SeatState.RELEASED, words, ended_at=at)
    return changed(seat, SeatState.SKIPPED, words or "The start was cancelled.", ended_at=at)


def changed(seat: Seat, state: SeatState, message: str = "", **times: float | None) -> Seat:
    """Return the seat in another state."""
    return seat.model_copy(update={"state": state, "message": message, **times})


def in_turn(seats: Mapping[int, Mapping[str, Seat]], most: int) -> list[Seat]:
    """Return at most ``most`` seats that wait, one of each start in turn: a class of three hundred
    does not keep one of ten waiting."""
    rows = [
        [seat for seat in of_start.values() if seat.state is SeatState.WAITING]
        for of_start in seats.values()
    ]
    chosen: list[Seat] = []
    depth = 0
    while len(chosen) < most and any(depth < len(row) for row in rows):
        chosen += [row[depth] for row in rows if depth < len(row)]
        depth += 1
    return chosen[:most]
