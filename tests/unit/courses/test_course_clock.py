"""Starts of a class and its calendar while the machine's clock is set, ahead and back: with a real
database; the Hub and Slurm are played by the test, each with a clock of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clusters import job
from session_records import recorded
from stepping_clock import SteppingClock
from test_course_starting import MONDAY, STUDENTS, Site
from test_reservations import MIXED, Slurm

from portal.courses.schedule import prestart as ahead_module
from portal.courses.schedule.prestart import Prestart
from portal.courses.schedule.reservations import Reservations
from portal.courses.start.backpressure import Backpressure
from portal.errors import HubUnavailable, TooManyRequests
from portal.models.cluster.cluster import ClusterSnapshot, Reservation
from portal.models.course.start import SeatState, StartKind
from portal.models.session.session import SessionState
from portal.slurm.control.reservations import ReservationControl
from portal.store import Store

HOUR = 3600.0
NINE = MONDAY + HOUR  # the meeting, until half past ten
STEPS = pytest.mark.parametrize("step", [HOUR, -HOUR], ids=["ahead", "back"])


class Monday:
    """The machine's clock, from a Monday on; ``uptime`` is the one that nobody sets."""

    def __init__(self, stepping: SteppingClock) -> None:
        self._stepping, self._began, self._passed = stepping, time.time(), 0.0

    def __call__(self) -> float:
        return MONDAY + time.time() - self._began

    def uptime(self) -> float:
        return time.monotonic() + self._passed

    def set(self, seconds: float) -> None:
        self._stepping.step(seconds)

    def passes(self, seconds: float) -> None:
        self._stepping.step(seconds)
        self._passed += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Monday:
    return Monday(SteppingClock(monkeypatch))


@pytest.fixture
async def site(tmp_path: Path, clock: Monday) -> AsyncIterator[Site]:
    store = Store(url=f"sqlite:///{tmp_path}/portal.sqlite")
    await store.upgrade()
    made = Site(store, clock, clock.uptime)
    yield made
    await made.starter.close()
    await store.close()


# -- jobs that a dead Hub left ----------------------------------------------------------------


async def left_behind(site: Site, *jobs: Any) -> Any:
    """A start of student01 of which the Hub says nothing more; Slurm has these jobs."""
    deep = await site.store.courses.get("deep")
    start = await site.starter.start(deep, StartKind.ALL, "barbara")
    site.hub.answers["student01"] = [HubUnavailable("gone")]
    await site.run_rounds()
    assert await site.states(start) == ["starting"]
    site.cluster.snapshot_ = ClusterSnapshot(taken_at=MONDAY, jobs={one.id: one for one in jobs})
    return start


async def again(site: Site) -> None:
    """The Hub answers once more."""
    site.starter.queue.later = float("-inf")
    await site.run_rounds()


def orphan(id: str = "77", submitted: float = MONDAY + 1) -> Any:
    """A job of student01's server in the course, by Slurm's clock."""
    return job(id, "student01", comment="portal:lab:course-deep", submit_time=submitted)


@pytest.mark.parametrize("step", [HOUR, 0.0, -HOUR], ids=["ahead", "right", "back"])
@pytest.mark.parametrize("slurms", [HOUR, 0.0, -HOUR])
@pytest.mark.parametrize("after", [True, False])
async def test_an_orphan_is_found_whatever_the_clocks_say(
    site: Site, clock: Monday, step: float, slurms: float, after: bool
) -> None:
    await site.course("student01")
    clock.set(step)
    start = await left_behind(site, orphan(submitted=MONDAY + slurms + 1))
    clock.set(-step if after else 0.0)
    await again(site)
    assert site.control.cancelled == [("77", "student01")]
    site.cluster.snapshot_ = ClusterSnapshot(taken_at=MONDAY)
    await site.run_rounds(2)
    assert site.hub.started == ["student01"], "once"
    assert await site.states(start) == ["starting"]


@STEPS
async def test_every_orphan_is_ended(site: Site, clock: Monday, step: float) -> None:
    await site.course("student01")
    await left_behind(site, orphan("77", MONDAY - 5 * HOUR), orphan("78"))
    clock.set(step)
    await again(site)
    assert sorted(site.control.cancelled) == [("77", "student01"), ("78", "student01")]


@STEPS
async def test_a_job_of_a_session_that_lives_is_no_orphan(
    site: Site, clock: Monday, step: float
) -> None:
    await site.course("student01")
    clock.set(-step)
    ending = recorded(
        id="s", user="student01", server="course-deep", space="deep", job_id="77",
        state=SessionState.RUNNING, submitted_at=clock() // 1,
    )  # fmt: skip
    await site.store.sessions.save(ending)
    clock.set(step)
    await left_behind(site, orphan("77"))
    await again(site)
    assert site.control.cancelled == []


@STEPS
async def test_what_was_known_before_an_outage_is_not_taken_for_what_slurm_says_now(
    site: Site, clock: Monday, step: float
) -> None:
    """An orphan that is missed means two sessions of its student."""
    await site.course("student01")
    await left_behind(site)
    site.cluster.snapshot_ = ClusterSnapshot(
        taken_at=clock(), asked_at=time.monotonic(), error="Slurm does not answer."
    )
    clock.set(step)
    for _ in range(3):
        await again(site)
    assert (site.control.cancelled, site.hub.started) == ([], [])
    site.cluster.snapshot_ = ClusterSnapshot(taken_at=MONDAY, jobs={"77": orphan()})
    await again(site)
    assert site.control.cancelled == [("77", "student01")]


# -- how far sessions are ---------------------------------------------------------------------


@STEPS
async def test_a_class_is_started_once_and_seen_through(
    site: Site, clock: Monday, step: float
) -> None:
    site.settings.at_once = 3
    deep = await site.course(*STUDENTS)
    # Sessions of the morning, which are over: one from before the clock is set back.
    for name in STUDENTS[:2]:
        await site.hub.record(name, "course-deep", SessionState.RUNNING)
        await site.hub.record(name, "course-deep", SessionState.ENDED, ending_code="stopped")
    clock.passes(60)
    start = await site.starter.start(deep, StartKind.ALL, "barbara")
    await site.starter.run_due(clock())
    assert (await site.states(start)).count("starting") == 3
    clock.set(step)
    await site.settle()
    await site.run_rounds(6)
    assert sorted(site.hub.started) == list(STUDENTS)
    assert await site.states(start) == ["starting"] * 7, "what is over is of another start"
    await site.hub.ready(*STUDENTS)
    clock.set(-step)
    await site.run_rounds(2)
    assert await site.states(start) == ["ready"] * 7
    assert sorted(site.hub.started) == list(STUDENTS)


@STEPS
async def test_a_session_that_is_over_is_not_taken_for_the_next(
    site: Site, clock: Monday, step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = await site.course("student01")
    await site.hub.record("student01", "course-deep", SessionState.RUNNING)
    await site.hub.record("student01", "course-deep", SessionState.ENDED, ending_code="stopped")
    clock.passes(60)
    clock.set(step)
    start = await site.starter.start(deep, StartKind.ALL, "barbara")

    async def later(*_: Any, **__: Any) -> None:
        return None

    with monkeypatch.context() as late:
        late.setattr(site.hub, "record", later)
        await site.run_rounds(3)
    assert await site.states(start) == ["starting"]
    await site.hub.ready("student01")
    await site.run_rounds()
    assert await site.states(start) == ["ready"]
    assert site.hub.started == ["student01"]


@STEPS
async def test_a_session_that_ends_after_a_step_is_seen_to_end(
    site: Site, clock: Monday, step: float
) -> None:
    deep = await site.course(*STUDENTS[:2])
    start = await site.starter.start(deep, StartKind.MEETING, "portal", release_at=NINE + 5 * HOUR)
    clock.set(step)
    await site.run_rounds(2)
    await site.hub.ready(*STUDENTS[:2])
    await site.run_rounds(2)
    clock.set(-2 * step)
    site.hub.running.clear()
    await site.hub.record(
        "student01", "course-deep", SessionState.ENDED, ending_code="stopped",
        ending_message="ada stopped the session.",
    )  # fmt: skip
    await site.hub.record(
        "student02", "course-deep", SessionState.ENDED, ending_code="failed",
        ending_message="Its node failed.",
    )  # fmt: skip
    clock.passes(11)
    await site.run_rounds()
    assert await site.states(start) == ["released", "failed"]
    assert sorted(site.hub.started) == list(STUDENTS[:2])


@STEPS
async def test_of_whom_nothing_is_heard_the_hub_is_asked_after_seconds(
    site: Site, clock: Monday, step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = await site.course("student01")
    await site.starter.start(deep, StartKind.ALL, "barbara")

    async def silent(*_: Any, **__: Any) -> None:
        return None

    with monkeypatch.context() as lost:
        lost.setattr(site.hub, "record", silent)
        await site.run_rounds(2)
    site.hub.running.clear()
    clock.set(step)
    asked = len(site.hub.questions)
    await site.run_rounds(2)
    assert len(site.hub.questions) == asked, "not before its time"
    clock.passes(16)
    await site.run_rounds(3)
    assert len(site.hub.questions) == asked + 1
    assert site.hub.started == ["student01", "student01"]


@STEPS
async def test_a_step_takes_no_patience_away_and_adds_none(
    site: Site, clock: Monday, step: float
) -> None:
    deep = await site.course(*STUDENTS[:2])
    busy = TooManyRequests("Too many users trying to log in right now.")
    busy.details["retry_after"] = 0.0
    site.hub.answers["student02"] = [busy, busy]
    await site.starter.start(deep, StartKind.ALL, "barbara")
    (live,) = site.starter.live
    clock.set(step)
    await site.run_rounds()
    assert live.seats["student02"].state is SeatState.WAITING
    clock.passes(HOUR + 1)
    await site.run_rounds()
    seat = live.seats["student02"]
    assert seat.state is SeatState.FAILED and "within an hour" in seat.message


@STEPS
async def test_a_rehearsal_has_its_quarter_of_an_hour(
    site: Site, clock: Monday, step: float
) -> None:
    deep = await site.course(*STUDENTS[:2])
    start = await site.starter.start(deep, StartKind.REHEARSAL, "barbara")
    await site.run_rounds(2)
    clock.set(step)
    await site.run_rounds(2)
    assert site.hub.stopped == []
    assert await site.states(start) == ["starting"] * 2
    clock.passes(901)
    await site.run_rounds(2)
    assert len(site.hub.stopped) == 2


@STEPS
async def test_handouts_wait_for_a_class_no_longer_than_they_should(
    site: Site, clock: Monday, step: float
) -> None:
    deep = await site.course(*STUDENTS[:2])
    rush = Backpressure(site.store, lambda: site.starter.live, clock.uptime)
    one: Any = SimpleNamespace(id="x", space="deep")
    await site.starter.start(deep, StartKind.ALL, "barbara")
    clock.set(step)
    assert await rush.waits(one)
    clock.passes(181)
    assert not await rush.waits(one)


# -- the calendar -----------------------------------------------------------------------------


@pytest.fixture
def copied(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The nodes to which the image was brought, each time; the site has the meeting's."""
    found: list[tuple[str, ...]] = []

    async def copy(environment: Any, nodes: Sequence[str]) -> AsyncIterator[Any]:
        found.append(tuple(nodes))
        for node in nodes:
            yield node, ""

    async def fine(one: Any) -> str:
        return ""

    monkeypatch.setattr(ahead_module, "image_problem", fine)
    site.context = replace(site.context, copy=copy)
    held = Reservation(
        name="course-deep-20270118T0900", start_time=NINE - 1200, end_time=NINE + 5400,
        nodes=("gpu01",),
    )  # fmt: skip
    site.cluster.snapshot_ = ClusterSnapshot(taken_at=MONDAY, reservations={held.name: held})
    return found


@pytest.mark.parametrize("minutes", range(-110, 60, 10))
@STEPS
async def test_a_meeting_is_prepared_once_and_its_sessions_are_started_once(
    site: Site, clock: Monday, copied: list[tuple[str, ...]], minutes: int, step: float
) -> None:
    """The clock is set ``minutes`` from the meeting's beginning, and back after 40 more. What is
    due is done once: where the clock never shows the time for it, not at all."""
    clock.set(-HOUR)  # seven o'clock
    await site.course(*STUDENTS[:3], prestart=True)
    ahead = Prestart(site.context, site.starter)
    lead, shown = 60.0 * site.context.settings.lead_minutes, list[float]()
    for minute in range(-120, 60, 2):
        if minute == minutes:
            clock.set(step)
        elif minute == minutes + 40:
            clock.set(-step)
        shown.append(clock())
        await ahead.run_due(clock())
        for _ in range(20):
            await asyncio.sleep(0)
        clock.passes(120)
    assert copied == [("gpu01",)] * any(NINE - 2 * lead <= now < NINE for now in shown)
    due = any(NINE - lead <= now < NINE for now in shown)
    assert due or minutes in (-40, -30, -20), "the other clocks show the time for it"
    starts = await site.store.starts.live()
    assert [one.action for one in site.notes].count("start-course") == len(starts) == due
    for start in starts:
        assert (start.meeting_at, start.release_at) == (NINE, NINE + 15 * 60)
    await ahead.close()


async def expected(site: Site, clock: Monday) -> Prestart:
    """Have two students' sessions ready for the meeting, whom nobody has claimed yet."""
    await site.course(*STUDENTS[:2], prestart=True)
    ahead = Prestart(site.context, site.starter)
    clock.passes(45 * 60)
    await ahead.run_due(clock())
    await site.run_rounds(2)
    await site.hub.ready(*STUDENTS[:2])
    await site.run_rounds()
    return ahead


@pytest.mark.parametrize("ahead_by", [20 * 60.0, HOUR])
async def test_who_is_expected_keeps_the_session_while_the_clock_is_ahead(
    site: Site, clock: Monday, ahead_by: float
) -> None:
    ahead = await expected(site, clock)
    (start,) = await site.store.starts.live()
    clock.set(ahead_by)
    await site.run_rounds(2)
    clock.passes(12 * 60)
    await site.run_rounds(2)
    clock.set(-ahead_by)
    await site.run_rounds(2)
    assert site.hub.stopped == []
    clock.passes(18 * 60 + 1)  # a quarter past nine
    await site.run_rounds(2)
    assert sorted(one[0] for one in site.hub.stopped) == list(STUDENTS[:2])
    assert await site.states(start) == ["released"] * 2
    await ahead.close()


async def test_a_clock_that_was_wrong_and_is_right_now_stops_whom_nobody_claims(
    site: Site, clock: Monday
) -> None:
    ahead = await expected(site, clock)
    clock.set(HOUR)
    await site.run_rounds()
    clock.passes(31 * 60)
    await site.run_rounds(2)
    assert len(site.hub.stopped) == 2
    await ahead.close()


class Reserved:
    """Slurm's reservations for the course's meetings, and the service's looks at them."""

    def __init__(self, site: Site) -> None:
        async def associations(name: str) -> None:
            return None

        async def snapshot(*_: Any, **__: Any) -> ClusterSnapshot:
            return MIXED

        self.site, self.slurm = site, Slurm()
        site.settings.days_ahead = 3  # of this week alone
        cluster: Any = SimpleNamespace(snapshot=snapshot, associations=associations)
        context = replace(site.context, cluster=cluster, reserving=ReservationControl(self.slurm))
        self.reservations = Reservations(context)

    async def begin(self) -> None:
        await self.site.course("root", reservation={"gpus": 3})

    async def make(self) -> None:
        """Have the first meeting's made an hour after the beginning."""
        await self.begin()
        self.site.clock.passes(HOUR)  # type: ignore[attr-defined]
        assert await self.run_minutes() == ["create"]

    async def run_minutes(self, times: int = 3) -> list[str]:
        """Look, a minute apart; return what Slurm was asked to do."""
        before = len(self.slurm.calls)
        for _ in range(times):
            await self.reservations.run_due(self.site.clock())
            self.site.clock.passes(61)  # type: ignore[attr-defined]
        return [words[0] for words in self.slurm.calls[before:]]


@pytest.fixture
def reserved(site: Site) -> Reserved:
    return Reserved(site)


@pytest.mark.parametrize("minutes", range(-110, 90, 10))
@STEPS
async def test_a_meetings_reservation_is_made_once_and_removed_once(
    site: Site, clock: Monday, reserved: Reserved, minutes: int, step: float
) -> None:
    """Set the clock ``minutes`` from the meeting's beginning, and back after 40 more."""
    clock.set(-HOUR)  # seven o'clock
    await reserved.begin()
    done = await reserved.run_minutes(1)
    assert done == ["create"]
    for minute in range(-118, 150, 2):
        if minute == minutes:
            clock.set(step)
        elif minute == minutes + 40:
            clock.set(-step)
        done += await reserved.run_minutes(1)
        if minute < 90:
            assert done == ["create"], f"at {minute} minutes"
        clock.passes(59)
    assert done == ["create", "delete"]
    rows = [one.name for one in await site.store.reservations.all()]
    assert "course-deep-20270118T0900" not in rows


async def test_slurm_that_ended_it_by_a_clock_of_its_own_is_asked_for_it_anew(
    clock: Monday, reserved: Reserved
) -> None:
    """A Slurm beside the portal, by the same clock."""
    await reserved.make()
    clock.set(2 * HOUR)
    reserved.slurm.held.clear()
    assert await reserved.run_minutes() == []
    clock.set(-2 * HOUR)
    assert await reserved.run_minutes() == ["create"]


@STEPS
async def test_a_meeting_that_is_called_off_is_given_up_at_once_after_a_step(
    site: Site, clock: Monday, reserved: Reserved, step: float
) -> None:
    await reserved.make()
    clock.set(step)
    stored = await site.store.courses.get("deep")
    other = stored.course.model_copy(update={"weekly": ()})
    await site.store.courses.save(stored.model_copy(update={"course": other}))
    assert await reserved.run_minutes() == ["delete"]


@STEPS
async def test_what_was_refused_is_tried_again_in_time(
    clock: Monday, reserved: Reserved, step: float
) -> None:
    reserved.slurm.most = 2
    await reserved.begin()
    assert "create" in await reserved.run_minutes(1)
    clock.set(step)
    reserved.slurm.most = 8
    clock.passes(900)
    assert "create" in await reserved.run_minutes(2)
    assert len(reserved.slurm.held) == 1
