"""While a class starts, the handouts wait for those who are not there yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from portal.courses.start.backpressure import Backpressure
from portal.courses.start.live_start import LiveStart
from portal.models.course.live import Presence
from portal.models.course.start import CourseStart, Seat, SeatState, StartKind

STARTED = 1000.0


@pytest.fixture
def start() -> LiveStart:
    kept = CourseStart(id=1, course="dl", kind=StartKind.ALL, by="barbara", asked_at=STARTED)
    people = ("ada", "grace")
    seats = {one: Seat(start_id=1, person=one, state=SeatState.READY) for one in people}
    seats["grace"] = Seat(start_id=1, person="grace", state=SeatState.STARTING)
    return LiveStart(kept, seats, began=STARTED)


@pytest.fixture
def opened() -> list[Presence]:
    """Who has come; the test adds to it."""
    return [Presence(course="dl", person="ada", session_id="a", seen_at=STARTED)]


@pytest.fixture
def clock() -> list[float]:
    return [STARTED + 60]


@pytest.fixture
def rush(start: LiveStart, opened: list[Presence], clock: list[float]) -> Backpressure:
    async def of_course(course: str) -> list[Presence]:
        assert course == "dl", "nobody asks about other courses"
        return opened

    store: Any = SimpleNamespace(presence=SimpleNamespace(of_course=of_course))
    return Backpressure(store, lambda: [start], lambda: clock[0])


def a_session(id_: str, course: str = "dl") -> Any:
    return SimpleNamespace(id=id_, space=course)


async def test_nobody_is_there_and_others_still_start(rush: Backpressure) -> None:
    assert await rush.waits(a_session("a"))
    assert not await rush.waits(a_session("a", "another"))
    assert not await rush.waits(a_session("a", ""))


async def test_whoever_has_come_gets_them(rush: Backpressure, opened: list[Presence]) -> None:
    opened[0] = opened[0].model_copy(update={"opened_at": STARTED + 50})
    assert not await rush.waits(a_session("a"))
    assert await rush.waits(a_session("b"))


async def test_when_all_have_started_everybody_gets_them(
    rush: Backpressure, start: LiveStart
) -> None:
    start.put(start.seats["grace"].model_copy(update={"state": SeatState.FAILED}))
    assert not await rush.waits(a_session("a"))


async def test_one_who_waits_for_hours_holds_up_nobody(
    rush: Backpressure, clock: list[float]
) -> None:
    clock[0] = STARTED + 181
    assert not await rush.waits(a_session("a"))
