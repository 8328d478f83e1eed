"""Starts of a course and its reservations, as they are kept."""

from __future__ import annotations

import pytest

from portal.errors import NotFound
from portal.models.course.start import (
    CourseStart,
    ReservationState,
    Seat,
    SeatState,
    StartKind,
    StoredReservation,
)
from portal.store import Store


def start(kind: StartKind = StartKind.ALL, course: str = "deep", **more: float) -> CourseStart:
    return CourseStart(course=course, kind=kind, by="barbara", asked_at=100.5, **more)


async def test_a_start_is_kept_with_its_seats(store: Store) -> None:
    table = store.starts
    seats = [Seat(start_id=0, person=name) for name in ("b", "a")]
    first = await table.add_start(start(), seats)
    second = await table.add_start(start(StartKind.MEETING, meeting_at=900.25), seats[:1])
    rehearsed = await table.add_start(start(StartKind.REHEARSAL), [])
    await table.add_start(start(course="other"), seats)
    assert await table.get(first.id) == first
    assert await table.of_course("deep") == [rehearsed, second, first]
    assert await table.newest("deep") == second
    assert await table.newest("none") is None
    assert await table.of_meeting("deep", 900.25) == second
    assert await table.of_meeting("deep", 900.5) is None
    with pytest.raises(NotFound):
        await table.get(999)

    ready = Seat(start_id=first.id, person="a", state=SeatState.READY, asked_at=1.0, ready_at=2.5)
    await table.put([ready])
    await table.put([])
    assert [one.person for one in await table.seats(first.id, second.id)] == ["a", "b", "b"]
    assert (await table.seats(first.id))[0] == ready
    assert await table.seats() == []

    await table.end(first.id, 200.0)
    await table.end(rehearsed.id, 200.0, "Called off.")
    assert next(one.id for one in await table.live()) == second.id
    assert (await table.get(rehearsed.id)).message == "Called off."


async def test_a_reservation_is_kept_by_its_name(store: Store) -> None:
    table = store.reservations
    one = StoredReservation(
        name="course-deep-20270118T0900",
        course="deep",
        meeting_at=900.0,
        state=ReservationState.ASKED,
        at=5.0,
    )
    await table.put(one)
    made = one.model_copy(update={"state": ReservationState.MADE, "spec": "{}"})
    await table.put(made)
    other = one.model_copy(update={"name": "course-other-20270118T0900", "course": "other"})
    await table.put(other)
    assert await table.all() == [made, other]
    assert await table.all("deep") == [made]
    await table.remove([one.name])
    assert await table.all() == [other]
