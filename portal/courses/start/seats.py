"""One person's session of a start, as what is known of it moves it on. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from portal.models.course.live import Presence
from portal.models.course.start import Seat, SeatState, StartKind
from portal.models.session.session import SessionRecord, SessionState

# Endings (portal.sessions.ending.TITLES) that nobody wanted.
_FAILED = frozenset(
    {"start_failed", "failed", "out_of_memory", "node_failure", "preempted", "unknown"}
)
LOST = "Slurm has lost its job, so it is started again."
LIVE = frozenset({SeatState.WAITING, SeatState.STARTING, SeatState.READY})


def server_of(course: str, kind: StartKind) -> str:
    """The name of the servers that such a start asks for."""
    return f"{'rehearsal' if kind is StartKind.REHEARSAL else 'course'}-{course}"


def newest(records: Iterable[SessionRecord], server: str) -> dict[str, list[SessionRecord]]:
    """Each person's sessions in the server of that name, the newest first."""
    found: dict[str, list[SessionRecord]] = {}
    for one in sorted(records, key=lambda record: -record.submitted_at):
        if one.server == server:
            found.setdefault(one.user, []).append(one)
    return found


def session_of(
    seat: Seat, records: Sequence[SessionRecord], before: Collection[str] = (), known: str = ""
) -> SessionRecord | None:
    """The session that was started for this seat; None before the Hub has told of one.

    ``records``: this person's in the server, the newest first; ``before``: the ids of those that
    were there before the seat was asked for, which are others; ``known``: the id of the one that
    was found before. A server has one session at a time, so one that lives is this seat's,
    whatever the clocks say. Of those that have ended unseen, what was submitted before the seat was
    asked for is another; submissions count in seconds.
    """
    asked = seat.asked_at
    if asked is None:
        return None
    mine = [one for one in records if one.id not in before]
    found = [one for one in mine if one.state is not SessionState.ENDED]
    found += [one for one in mine if one.id == known]
    found += [one for one in mine if one.submitted_at >= asked // 1]
    return next(iter(found), None)


def seen(seat: Seat, record: SessionRecord | None, presence: Presence | None, now: float) -> Seat:
    """The seat, after a look at its session."""
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
    """Whether Slurm has forgotten the job of this seat's session: it is surely gone, and nobody
    wanted that."""
    return (
        record is not None
        and seat.state in (SeatState.STARTING, SeatState.READY)
        and record.state is SessionState.ENDED
        and record.ending_code == "unknown"
    )


def opened(record: SessionRecord, presence: Presence | None) -> bool:
    """Whether its owner has had this session in a browser."""
    return (
        presence is not None and presence.session_id == record.id and presence.opened_at is not None
    )


def _ended(seat: Seat, record: SessionRecord, now: float) -> Seat:
    at = record.ended_at or now
    words = record.ending_message
    if record.ending_code in _FAILED or not record.ending_code:
        return changed(seat, SeatState.FAILED, words or "Its session ended.", ended_at=at)
    if seat.state is SeatState.READY:
        return changed(seat, SeatState.RELEASED, words, ended_at=at)
    return changed(seat, SeatState.SKIPPED, words or "It was called off.", ended_at=at)


def changed(seat: Seat, state: SeatState, message: str = "", **times: float | None) -> Seat:
    """The seat in another state."""
    return seat.model_copy(update={"state": state, "message": message, **times})


def in_turn(seats: Mapping[int, Mapping[str, Seat]], most: int) -> list[Seat]:
    """At most so many that wait, one of each start after the other: a class of three hundred does
    not keep one of ten waiting."""
    rows = [
        [one for one in some.values() if one.state is SeatState.WAITING] for some in seats.values()
    ]
    found: list[Seat] = []
    depth = 0
    while len(found) < most and any(depth < len(row) for row in rows):
        found += [row[depth] for row in rows if depth < len(row)]
        depth += 1
    return found[:most]
