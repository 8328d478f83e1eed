"""Starts of sessions for a whole course: with a real database; the Hub, Slurm and the clock are
played by the test."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clusters import job
from fake_hub import FakeHub
from session_records import recorded
from stored_courses import a_course, stored

from portal import errors
from portal.courses.context import CourseContext
from portal.courses.schedule import prestart as ahead_module
from portal.courses.schedule.closeout import Closeout
from portal.courses.schedule.loop import CourseLoop
from portal.courses.schedule.prestart import Prestart
from portal.courses.settings import Courses
from portal.courses.start.rehearsal import report
from portal.courses.start.seats import in_turn
from portal.courses.start.starting import Starter
from portal.models.audit import Outcome
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import ClusterSnapshot, JobState, Reservation
from portal.models.course.course import Course, CourseMember, StoredCourse
from portal.models.course.live import Presence
from portal.models.course.start import CourseStart, Seat, SeatState, StartKind
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.stop_reason import StopCode
from portal.models.session.usage import JobUsage
from portal.models.space import Role, SpaceState
from portal.spaces.membership_cache import MembershipCache
from portal.store import Store

LOG = logging.getLogger("portal-test")
MONDAY = 1_800_259_200.0  # 2027-01-18, 08:00 UTC
STUDENTS = tuple(f"student{n:02}" for n in range(1, 8))


def course(**more: Any) -> Course:
    days = {"begins": "2027-01-01", "ends": "2027-03-01"}
    weekly = [{"day": 0, "begins": "09:00", "minutes": 90}]
    return a_course(**{**days, "weekly": weekly, **more})


def kept(state: SpaceState = SpaceState.APPROVED, **more: Any) -> StoredCourse:
    pinned = Environment.model_validate(
        {"name": "lab", "title": "Lab", "kind": "container", "image": "/images/lab.sif"}
    )
    times = {"created_at": MONDAY, "changed_at": MONDAY}
    return stored(course(**more), state=state, pinned=pinned, **times)


class Hub(FakeHub):
    """A Hub that notes the sessions of what it starts. ``answers``: what it says to the next starts
    of somebody, instead; ``gate``: starts wait for it."""

    new_state = "pending"

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(running={})
        self.store, self.clock = store, clock
        self.answers: dict[str, list[errors.PortalError]] = {}
        self.known = set(STUDENTS)
        self.started: list[str] = []
        self.questions: list[tuple[str, ...]] = []
        self.introduced: list[str] = []
        self.gate: asyncio.Event | None = None
        self.at_once = self.most = self.told = 0

    async def servers(self, server: str, people: Collection[str]) -> dict[str, str]:
        self.answer()
        self.questions.append(tuple(people))
        return {one: self.running.get((one, server), "") for one in people if one in self.known}

    async def make_people(self, names: Collection[str]) -> dict[str, str]:
        self.answer()
        self.introduced += names
        refused = {one: f"The directory has no {one}." for one in names if one == "nobody"}
        self.known |= set(names) - set(refused)
        return refused

    async def begin_server(self, user: str, server: str, options: Mapping[str, Any]) -> None:
        self.answer()
        assert options == {"course": "deep"}
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            if self.gate is not None:
                await self.gate.wait()
            await asyncio.sleep(0)
            if self.answers.get(user):
                raise self.answers[user].pop(0)
            if (user, server) in self.running:
                return
            await super().begin_server(user, server, options)
            self.started.append(user)
            await self.record(user, server, SessionState.PENDING)
        finally:
            self.at_once -= 1

    async def stop_server(self, user: str, server: str, **about: Any) -> None:
        await super().stop_server(user, server, **about)
        reason = self.stopped[-1][2]
        await self.record(
            user,
            server,
            SessionState.ENDED,
            ended_at=self.clock(),
            ending_code=str(reason.code),
            ending_message=reason.words,
        )

    async def record(
        self, user: str, server: str, state: SessionState, **more: Any
    ) -> SessionRecord:
        """The record of that session, as the Hub would write it."""
        records = await self.store.sessions.of_space("deep", 0)
        mine = [one for one in records if (one.user, one.server) == (user, server)]
        last = next((one for one in mine if one.state is not SessionState.ENDED), None)
        if last is None:
            number = self.told
            self.told += 1
            last = recorded(
                id=f"s{number}",
                user=user,
                server=server,
                space="deep",
                job_id=str(number),
                submitted_at=self.clock() // 1,
            )
        record = last.model_copy(update={"state": state, **more})
        await self.store.sessions.save(record)
        return record

    async def ready(self, *users: str, server: str = "course-deep") -> None:
        for user in users:
            self.running[user, server] = "ready"
            await self.record(user, server, SessionState.RUNNING, ready_at=self.clock())


@dataclass
class Clock:
    now: float = MONDAY

    def __call__(self) -> float:
        return self.now


@dataclass
class Cluster:
    snapshot_: ClusterSnapshot = field(default_factory=lambda: ClusterSnapshot(taken_at=MONDAY))

    async def snapshot(self, newer_than: float = 0, **_: Any) -> ClusterSnapshot:
        if self.snapshot_.error:
            return self.snapshot_
        asked = newer_than or time.monotonic()
        return self.snapshot_.model_copy(update={"taken_at": MONDAY, "asked_at": asked})


@dataclass
class Control:
    cancelled: list[tuple[str, str]] = field(default_factory=list)

    async def cancel(self, job_id: str, user: str) -> None:
        self.cancelled.append((job_id, user))


class Site:
    """A course with its students, and everything around it."""

    def __init__(
        self, store: Store, clock: Any = None, uptime: Any = None, **settings: Any
    ) -> None:
        self.store, self.clock = store, clock or Clock()
        self.hub = Hub(store, self.clock)
        self.cluster, self.control = Cluster(), Control()
        self.notes: list[Any] = []
        self.sessions: dict[str, SessionRecord] = {}
        self.settings = Courses(**settings)
        anything: Any = self
        self.context = CourseContext(
            store=store,
            hub=anything.hub,
            memberships=MembershipCache(store.spaces.get, store.members.of_person),
            settings=self.settings,
            cluster=anything.cluster,
            control=anything.control,
            reserving=anything,
            view=anything.view,
            note=self.note,
            log=LOG,
            wall=self.clock,
            uptime=uptime or self.clock,
        )
        self.starter = Starter(self.context)

    def view(self) -> Any:
        return SimpleNamespace(snapshot=self.cluster.snapshot_, sessions=self.sessions)

    async def note(self, entry: Any) -> None:
        self.notes.append(entry)

    async def course(self, *people: str, **more: Any) -> StoredCourse:
        one = kept(**more)
        members = [
            CourseMember(course="deep", person=name, role=Role.STUDENT) for name in people
        ] + [CourseMember(course="deep", person="barbara", role=Role.INSTRUCTOR)]
        await self.store.courses.add_space(one, members)
        return one

    async def run_rounds(self, times: int = 1) -> None:
        """Some looks, each followed by what it began."""
        for _ in range(times):
            await self.starter.run_due(self.clock())
            await self.settle()

    async def settle(self) -> None:
        await self.starter.settled()

    async def seats(self, start: CourseStart) -> dict[str, Seat]:
        return {one.person: one for one in await self.store.starts.seats(start.id)}

    async def states(self, start: CourseStart) -> list[str]:
        return [str(one.state) for one in (await self.seats(start)).values()]

    def restarted(self) -> None:
        """The service ends, and the next one begins with what the database has."""
        self.starter = Starter(self.context)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    store = Store(url=f"sqlite:///{tmp_path}/portal.sqlite")
    await store.upgrade()
    made = Site(store)
    yield made
    await made.starter.close()
    await store.close()


async def test_everyone_is_started_so_many_at_the_same_time_and_each_result_is_kept(
    site: Site,
) -> None:
    site.settings.at_once = 3
    deep = await site.course(*STUDENTS)
    site.hub.running["student03", "course-deep"] = "ready"
    site.hub.answers["student05"] = [errors.NotAllowed("The budget is used up.")]

    start = await site.starter.start(deep, StartKind.ALL, "barbara")
    assert await site.states(start) == ["waiting"] * 7
    await site.run_rounds(4)

    assert site.hub.most == 3
    assert sorted(site.hub.started) == [
        one for one in STUDENTS if one not in ("student03", "student05")
    ]
    assert len(site.hub.questions) == 1  # for all of them
    assert site.hub.introduced == []
    site.clock.now += 7
    await site.hub.ready(*site.hub.started)
    await site.run_rounds()
    found = await site.seats(start)
    assert found["student01"].state is SeatState.READY
    assert found["student01"].ready_at == MONDAY + 7
    assert found["student03"].state is SeatState.SKIPPED
    assert found["student05"].state is SeatState.FAILED
    assert found["student05"].message == "The budget is used up."
    assert (await site.store.starts.get(start.id)).ended_at == MONDAY + 7
    told = report(start, list(found.values()))
    assert (told.ready, told.failed, told.skipped, told.median, told.last) == (5, 1, 1, 7, 7)
    assert told.failures[0].words == "The budget is used up."
    assert site.notes[-1].action == "course-start-ended"


async def test_a_hub_that_says_later_is_asked_later_and_nobody_hears_of_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    uptime = SimpleNamespace(now=1000.0)
    monkeypatch.setattr("portal.courses.start.spawn_queue.time.monotonic", lambda: uptime.now)
    deep = await site.course(*STUDENTS[:3])
    busy = errors.TooManyRequests("Too many users trying to log in right now.")
    busy.details["retry_after"] = 40.0
    site.hub.answers["student02"] = [busy]
    start = await site.starter.start(deep, StartKind.ALL, "barbara")
    await site.run_rounds(3)
    found = await site.seats(start)
    assert site.hub.started == ["student01", "student03"]
    uptime.now += 39
    await site.run_rounds(2)
    assert site.hub.started == ["student01", "student03"]
    uptime.now += 2
    await site.run_rounds()
    assert site.hub.started == ["student01", "student03", "student02"]
    assert found["student02"].state is not SeatState.FAILED


async def test_a_service_that_dies_in_the_middle_starts_nobody_twice(site: Site) -> None:
    site.settings.at_once = 3
    deep = await site.course(*STUDENTS)
    start = await site.starter.start(deep, StartKind.ALL, "barbara")
    site.hub.gate = asyncio.Event()
    await site.starter.run_due(MONDAY)
    assert (await site.states(start)).count("starting") == 3
    # The Hub has got one of the three; then the service is gone.
    site.hub.running["student02", "course-deep"] = "pending"
    await site.hub.record("student02", "course-deep", SessionState.PENDING)
    await site.starter.close()
    site.hub.gate = None
    site.hub.started.append("student02")

    site.restarted()
    await site.run_rounds(6)
    assert sorted(site.hub.started) == list(STUDENTS)
    await site.hub.ready(*STUDENTS)
    await site.run_rounds()
    assert await site.states(start) == ["ready"] * 7


async def test_a_hub_that_is_restarted_is_asked_what_it_has_before_anything_else(
    site: Site,
) -> None:
    deep = await site.course(*STUDENTS[:3])
    start = await site.starter.start(deep, StartKind.ALL, "barbara")
    # It takes the first, says nothing of it any more, and dies.
    site.hub.answers["student01"] = [errors.HubUnavailable("gone")]
    site.hub.answers["student02"] = [errors.HubUnavailable("gone")]
    await site.run_rounds()
    assert await site.states(start) == ["starting"] * 3
    site.hub.running["student01", "course-deep"] = "pending"
    site.hub.away = True
    with pytest.raises(errors.HubUnavailable):
        await site.run_rounds()
    assert await site.states(start) == ["starting"] * 3
    site.hub.away = False
    site.starter.queue.later = float("-inf")
    await site.run_rounds(2)
    # student02 was asked for again, student01 was not.
    assert site.hub.started == ["student03", "student02"]


async def test_a_job_that_a_dead_hub_left_is_ended_before_the_next_is_asked_for(
    site: Site,
) -> None:
    deep = await site.course("student01")
    start = await site.starter.start(deep, StartKind.ALL, "barbara")
    site.hub.answers["student01"] = [errors.HubUnavailable("gone")]
    await site.run_rounds()
    left = job("77", "student01", comment="portal:lab:course-deep", submit_time=MONDAY + 1)
    other = job("78", "student01", comment="portal:lab:", submit_time=MONDAY + 1)
    over = job("76", "student01", comment="portal:lab:course-deep", submit_time=MONDAY + 1)
    jobs = {one.id: one for one in (left, other)}
    jobs["76"] = over.model_copy(update={"state": JobState.COMPLETED})
    # While Slurm does not answer, nobody knows whether there is one.
    site.cluster.snapshot_ = ClusterSnapshot(taken_at=MONDAY - 1, error="Slurm does not answer.")
    site.starter.queue.later = float("-inf")
    await site.run_rounds(2)
    assert (site.control.cancelled, site.hub.started) == ([], [])
    site.cluster.snapshot_ = ClusterSnapshot(taken_at=MONDAY, jobs=jobs)
    site.starter.queue.later = float("-inf")
    site.starter.wake.clear()
    await site.run_rounds()
    assert site.control.cancelled == [("77", "student01")]
    site.cluster.snapshot_ = ClusterSnapshot(taken_at=MONDAY)
    await site.run_rounds()
    assert site.hub.started == ["student01"]
    assert await site.states(start) == ["starting"]


async def test_who_lost_their_job_with_slurm_is_started_again_and_nobody_twice(site: Site) -> None:
    deep = await site.course(*STUDENTS[:3])
    start = await site.starter.start(deep, StartKind.ALL, "barbara")
    await site.run_rounds()
    await site.hub.ready("student01")
    for name in ("student01", "student02"):
        await site.hub.record(name, "course-deep", SessionState.ENDED, ending_code="unknown")
    site.clock.now += 5
    # The Hub still has their servers: they are not asked for beside those.
    await site.run_rounds(3)
    assert len(site.hub.started) == 3
    seats = await site.seats(start)
    assert {seats[name].state for name in STUDENTS[:3]} == {SeatState.STARTING}
    assert "lost the job" in seats["student01"].message
    # Nor while Slurm is away: one of the jobs may be there.
    del site.hub.running["student01", "course-deep"], site.hub.running["student02", "course-deep"]
    site.cluster.snapshot_ = ClusterSnapshot(taken_at=MONDAY - 1, error="Slurm does not answer.")
    await site.run_rounds(3)
    assert len(site.hub.started) == 3
    site.cluster.snapshot_ = ClusterSnapshot(taken_at=MONDAY)
    await site.run_rounds(3)
    assert sorted(site.hub.started) == [
        "student01",
        "student01",
        "student02",
        "student02",
        "student03",
    ]
    await site.hub.ready(*STUDENTS[:3])
    await site.run_rounds(2)
    assert await site.states(start) == ["ready"] * 3
    assert len(site.hub.started) == 5


async def test_whose_job_slurm_loses_again_and_again_is_told(site: Site) -> None:
    deep = await site.course("student01")
    start = await site.starter.start(deep, StartKind.ALL, "barbara")
    for _ in range(9):
        await site.run_rounds()
        if site.hub.running.pop(("student01", "course-deep"), ""):
            await site.hub.record(
                "student01", "course-deep", SessionState.ENDED, ending_code="unknown"
            )
        site.clock.now += 5
    seat = (await site.seats(start))["student01"]
    assert seat.state is SeatState.FAILED and "lost the job" in seat.message
    assert len(site.hub.started) == 3


async def test_what_the_hub_loses_again_and_again_is_given_up(site: Site) -> None:
    deep = await site.course("student01")
    start = await site.starter.start(deep, StartKind.ALL, "barbara")
    site.hub.answers["student01"] = [errors.HubUnavailable("gone") for _ in range(9)]
    for _ in range(8):
        site.starter.queue.later = float("-inf")
        await site.run_rounds()
    seat = (await site.seats(start))["student01"]
    assert seat.state is SeatState.FAILED
    assert "after 3 requests" in seat.message


async def test_the_database_away_puts_things_off_and_loses_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = await site.course(*STUDENTS[:2])
    start = await site.starter.start(deep, StartKind.ALL, "barbara")
    put = site.store.starts.put

    async def away(seats: Any) -> None:
        if seats:
            raise errors.StoreUnavailable("The database does not answer.")

    monkeypatch.setattr(site.store.starts, "put", away)
    with pytest.raises(errors.StoreUnavailable):
        await site.run_rounds()
    assert site.hub.started == []  # what is not kept is not asked for
    monkeypatch.setattr(site.store.starts, "put", put)
    await site.run_rounds()
    assert site.hub.started == ["student01", "student02"]
    assert await site.states(start) == ["starting"] * 2


async def test_what_is_called_off_while_it_is_written_is_not_asked_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = await site.course(*STUDENTS[:2])
    start = await site.starter.start(deep, StartKind.ALL, "barbara")
    put, written = site.store.starts.put, asyncio.Event()

    async def slow(seats: Any) -> None:
        await put(seats)
        if any(one.state is SeatState.STARTING for one in seats):
            written.set()
            await asyncio.sleep(0.05)

    monkeypatch.setattr(site.store.starts, "put", slow)
    looking = asyncio.create_task(site.run_rounds())
    await written.wait()
    await site.starter.cancel(start, "barbara")
    await looking
    await site.run_rounds()
    assert site.hub.started == []
    assert await site.states(start) == ["skipped", "skipped"]


async def test_the_next_is_asked_for_as_soon_as_one_is_answered(site: Site) -> None:
    site.settings.at_once, site.settings.interval = 2, 3600.0
    deep = await site.course(*STUDENTS)
    loop = CourseLoop(site.settings, LOG)
    loop.add_pieces(site.starter, site.starter.refill)
    task = asyncio.create_task(loop.run())
    try:
        await site.starter.start(deep, StartKind.ALL, "barbara")
        async with asyncio.timeout(120):
            while len(site.hub.started) < len(STUDENTS):
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert site.hub.most == 2
    assert len(set(site.hub.started)) == len(STUDENTS)


async def test_those_whom_the_hub_never_saw_are_introduced_to_it(site: Site) -> None:
    deep = await site.course("nobody", "student01", "student29")
    start = await site.starter.start(deep, StartKind.ALL, "barbara")
    await site.run_rounds(2)
    assert site.hub.introduced == ["nobody", "student29"]
    assert sorted(site.hub.started) == ["student01", "student29"]
    seat = (await site.seats(start))["nobody"]
    assert (seat.state, seat.message) == (SeatState.FAILED, "The directory has no nobody.")


async def test_a_second_start_waits_for_the_first_and_strangers_are_refused(site: Site) -> None:
    deep = await site.course(*STUDENTS[:2])
    start = await site.starter.start(deep, StartKind.ALL, "barbara")
    with pytest.raises(errors.Conflict, match="in progress"):
        await site.starter.start(deep, StartKind.ALL, "barbara")
    with pytest.raises(errors.InvalidRequest, match="eve is not a member of this course"):
        await site.starter.start(deep, StartKind.REHEARSAL, "barbara", people=["eve"])
    assert await site.starter.cancel(start, "barbara") == 2
    await site.run_rounds()
    assert await site.states(start) == ["skipped", "skipped"]
    assert site.hub.started == []
    with pytest.raises(errors.Conflict, match="has ended"):
        await site.starter.cancel(start, "barbara")


async def test_a_class_of_ten_does_not_wait_for_one_of_three_hundred() -> None:
    def seats(start: int, number: int) -> dict[str, Seat]:
        return {f"p{n}": Seat(start_id=start, person=f"p{n}") for n in range(number)}

    chosen = in_turn({1: seats(1, 300), 2: seats(2, 2)}, 6)
    assert [one.start_id for one in chosen] == [1, 2, 1, 2, 1, 1]


async def test_a_rehearsal_is_thrown_away_and_reports(site: Site) -> None:
    site.settings.at_once = 2
    deep = await site.course(*STUDENTS)
    site.hub.running["student01", "course-deep"] = "ready"  # their own stays
    start = await site.starter.start(
        deep, StartKind.REHEARSAL, "barbara", number=4, missing=["The image is not there."]
    )
    site.hub.answers["student02"] = [errors.NotAllowed("No."), errors.NotAllowed("No.")]
    await site.run_rounds(3)
    assert site.hub.started == ["student01", "student03", "student04"]
    server = "rehearsal-deep"
    site.clock.now += 5
    await site.hub.ready("student01", "student03", server=server)
    await site.run_rounds()
    assert site.hub.stopped == []
    site.clock.now += 5
    await site.hub.ready("student04", server=server)
    await site.run_rounds(3)
    assert [one[:2] for one in site.hub.stopped] == [
        (name, server) for name in ("student01", "student03", "student04")
    ]
    assert site.hub.stopped[0][2].code is StopCode.REHEARSED
    start = await site.store.starts.get(start.id)
    assert start.ended_at is not None
    told = report(start, list((await site.seats(start)).values()), start.message.splitlines())
    assert (told.total, told.ready, told.failed, told.median, told.last) == (4, 3, 1, 5, 10)
    assert told.missing == ("The image is not there.",)
    assert ("student01", "course-deep") in site.hub.running


async def test_a_rehearsal_that_hangs_ends_after_its_time(site: Site) -> None:
    deep = await site.course(*STUDENTS[:2])
    start = await site.starter.start(deep, StartKind.REHEARSAL, "barbara")
    await site.run_rounds(2)
    await site.hub.ready("student01", server="rehearsal-deep")
    site.clock.now += 901
    for _ in range(20):  # a look at Slurm that comes late is followed by another
        await site.run_rounds()
        told = report(start, list((await site.seats(start)).values()))
        if told.left == 0:
            break
    assert site.hub.running == {}
    assert (told.ready, told.failed) == (1, 1)
    assert "15 minutes" in told.failures[0].words


async def test_a_session_that_fails_says_why(site: Site) -> None:
    deep = await site.course(*STUDENTS[:2])
    start = await site.starter.start(deep, StartKind.ALL, "barbara")
    await site.run_rounds(2)
    await site.hub.record(
        "student01",
        "course-deep",
        SessionState.ENDED,
        ending_code="start_failed",
        ending_message="Its container could not be started.",
    )
    await site.hub.ready("student02")
    await site.run_rounds()
    assert (await site.seats(start))["student01"].message == "Its container could not be started."
    assert await site.states(start) == ["failed", "ready"]


# -- ahead of meetings ------------------------------------------------------------------------


async def test_ahead_of_a_meeting_everyone_is_started_and_who_does_not_come_is_stopped(
    site: Site,
) -> None:
    nine = MONDAY + 3600
    await site.course(*STUDENTS[:3], prestart=True)
    ahead = Prestart(site.context, site.starter)
    site.clock.now = nine - 21 * 60
    await ahead.run_due(site.clock())
    assert await site.store.starts.live() == []
    site.clock.now = nine - 20 * 60
    await ahead.run_due(site.clock())
    await ahead.run_due(site.clock())
    await Prestart(site.context, site.starter).run_due(site.clock())  # the service was restarted
    (start,) = await site.store.starts.live()
    assert (start.kind, start.by, start.meeting_at) == (StartKind.MEETING, "portal", nine)
    assert start.release_at == nine + 15 * 60
    await site.run_rounds(2)
    await site.hub.ready(*STUDENTS[:3])
    await site.run_rounds()
    site.clock.now = nine + 60
    record = (await site.store.sessions.find(user="student02"))[0][0]
    await site.store.presence.save_report(
        Presence(
            course="deep",
            person="student02",
            session_id=record.id,
            seen_at=nine,
            opened_at=nine,
        )
    )
    await site.run_rounds()
    assert await site.states(start) == ["ready", "claimed", "ready"]
    site.clock.now = nine + 15 * 60 - 1
    await site.run_rounds()
    assert site.hub.stopped == []
    site.clock.now = nine + 15 * 60
    await site.run_rounds(2)
    assert [one[0] for one in site.hub.stopped] == ["student01", "student03"]
    assert site.hub.stopped[0][2].code is StopCode.UNCLAIMED
    assert await site.states(start) == ["released", "claimed", "released"]
    assert (await site.store.starts.get(start.id)).ended_at is not None
    await ahead.close()


async def test_who_opens_at_the_last_moment_keeps_the_session(site: Site) -> None:
    nine = MONDAY + 3600
    deep = await site.course("student01", prestart=True)
    start = await site.starter.start(deep, StartKind.MEETING, "portal", release_at=nine)
    await site.run_rounds(2)
    await site.hub.ready("student01")
    site.clock.now = nine - 1
    await site.run_rounds()
    record = (await site.store.sessions.find(user="student01"))[0][0]
    told = Presence(
        course="deep", person="student01", session_id=record.id, seen_at=nine, opened_at=nine
    )
    await site.store.presence.save_report(told)
    site.clock.now = nine
    await site.run_rounds()
    assert await site.states(start) == ["claimed"]
    assert site.hub.stopped == []


async def test_while_nobody_knows_who_came_nobody_is_stopped(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    nine = MONDAY + 3600
    deep = await site.course("student01")
    await site.starter.start(deep, StartKind.MEETING, "portal", release_at=nine)
    await site.run_rounds(2)
    await site.hub.ready("student01")
    await site.run_rounds()

    async def away(course: str) -> None:
        raise errors.StoreUnavailable("The database does not answer.")

    monkeypatch.setattr(site.store.presence, "of_course", away)
    site.clock.now = nine + 60
    with pytest.raises(errors.StoreUnavailable):
        await site.run_rounds()
    assert site.hub.stopped == []


async def test_a_course_without_prestart_starts_nobody(site: Site) -> None:
    await site.course(*STUDENTS[:2])
    ahead = Prestart(site.context, site.starter)
    await ahead.run_due(MONDAY + 3600 - 600)
    assert await site.store.starts.live() == []
    await ahead.close()


async def test_ahead_of_a_meeting_the_image_comes_to_its_nodes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    nine = MONDAY + 3600
    copied: list[tuple[str, tuple[str, ...]]] = []

    async def copy(environment: Environment, nodes: Sequence[str]) -> AsyncIterator[Any]:
        copied.append((environment.name, tuple(nodes)))
        for node in nodes:
            yield node, "" if node == "gpu01" else "no space left on the device"

    async def fine(one: StoredCourse) -> str:
        return ""

    monkeypatch.setattr(ahead_module, "image_problem", fine)
    held = Reservation(
        name="course-deep-20270118T0900",
        start_time=nine - 1200,
        end_time=nine + 5400,
        nodes=("gpu01", "gpu02"),
    )
    other = held.model_copy(update={"name": "maintenance", "nodes": ("cpu01",)})
    site.cluster.snapshot_ = ClusterSnapshot(
        taken_at=MONDAY, reservations={one.name: one for one in (held, other)}
    )
    await site.course(*STUDENTS[:2])
    ahead = Prestart(replace(site.context, copy=copy), site.starter)
    for early in (41, 39, 38, 20):
        site.clock.now = nine - early * 60
        await ahead.run_due(site.clock())
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(copied) == (early < 40), "once a meeting, twice as early as sessions"
    assert copied == [("lab", ("gpu01", "gpu02"))]
    assert [(one.action, one.outcome, one.detail) for one in site.notes] == [
        (
            "prepare-course",
            Outcome.FAILED,
            "The image could not be unpacked on gpu02: no space left on the device",
        )
    ]
    await ahead.close()


# -- ends -------------------------------------------------------------------------------------


async def test_the_end_of_a_course_stops_its_sessions_and_starts_and_ends_help(
    site: Site,
) -> None:
    site.settings.at_once = 1
    deep = await site.course(*STUDENTS[:3])
    start = await site.starter.start(deep, StartKind.ALL, "barbara")
    await site.run_rounds()
    record = await site.hub.record("student01", "course-deep", SessionState.RUNNING)
    other = record.model_copy(update={"id": "x", "server": "", "space": "", "job_id": "99"})
    site.sessions = {record.job_id: record, other.job_id: other}
    helped: list[str] = []

    async def end_help(name: str, by: str, now: float) -> None:
        helped.append(name)

    over = Closeout(site.context, site.starter, end_help)
    await over.run_due(site.clock())
    assert (site.hub.stopped, helped) == ([], [])

    await site.store.courses.save(deep.model_copy(update={"state": SpaceState.ARCHIVED}))
    await over.run_due(site.clock())
    await over.run_due(site.clock())
    assert [one[:2] for one in site.hub.stopped] == [("student01", "course-deep")]
    assert site.hub.stopped[0][2].code is StopCode.COURSE_OVER
    assert "archived" in site.hub.stopped[0][2].words
    assert helped == ["deep"]
    assert await site.states(start) == ["skipped"] * 3
    assert site.notes[-1].action == "stop-course-session"


async def test_the_last_day_is_the_courses_own(site: Site) -> None:
    deep = await site.course("student01", timezone="Pacific/Auckland")
    site.hub.running["student01", "course-deep"] = "ready"
    record = await site.hub.record("student01", "course-deep", SessionState.RUNNING)
    site.sessions = {record.job_id: record}
    over = Closeout(site.context, site.starter)
    assert deep.course.ends == date(2027, 3, 1)
    await over.run_due(1_803_898_800.0 - 1)  # 23:59:59 of 1 March in Auckland (UTC+13)
    assert site.hub.stopped == []
    await over.run_due(1_803_898_800.0)
    assert "The course has ended" in site.hub.stopped[0][2].words


async def test_who_is_no_longer_in_the_course_has_no_session_of_it(site: Site) -> None:
    await site.course(*STUDENTS[:2])
    for name in STUDENTS[:2]:
        site.hub.running[name, "course-deep"] = "ready"
        record = await site.hub.record(name, "course-deep", SessionState.RUNNING)
        site.sessions[record.job_id] = record
    await site.store.members.remove("deep", ["student02"])
    await Closeout(site.context, site.starter).run_due(site.clock())
    assert [one[0] for one in site.hub.stopped] == ["student02"]


async def test_a_used_budget_ends_the_points_with_gpus(site: Site) -> None:
    """A session ends by its time limit; thousands of points would not."""
    await site.course("student01", budget=2.0)
    for server, gpus in (("course-deep", 1), ("run-01234567", 1), ("run-76543210", 0)):
        site.hub.running["student01", server] = "ready"
        record = await site.hub.record("student01", server, SessionState.RUNNING)
        record = record.model_copy(update={"options": {"gpus": gpus}})
        site.sessions[record.job_id] = record
    over = Closeout(site.context, site.starter)
    used = JobUsage(job_id="1", submitted_at=1, day="2027-01-18", user="ada", course="deep", gpus=1)
    for hours, stopped in ((1.5, 0), (0.5, 1)):
        await site.store.usage.add_seconds([used.model_copy(update={"held": hours * 3600})])
        await over.run_due(site.clock())
        assert len(site.hub.stopped) == stopped
    await over.run_due(site.clock())
    ((user, server, reason),) = site.hub.stopped
    assert (user, server, reason.code) == ("student01", "run-01234567", StopCode.BUDGET_USED)
    assert reason.words.startswith("The course has used up its GPU-hours.")
    assert site.notes[-1].action == "stop-course-session"


# -- the loop ---------------------------------------------------------------------------------


async def test_one_piece_that_fails_or_hangs_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing:
        looks = 0

        async def run_due(self, now: float) -> None:
            self.looks += 1
            raise (errors.StoreUnavailable("away") if self.looks < 3 else RuntimeError("broken"))

    class Hanging:
        async def run_due(self, now: float) -> None:
            await asyncio.Event().wait()

    class Fine:
        def __init__(self) -> None:
            self.looks, self.wake = 0, asyncio.Event()

        async def run_due(self, now: float) -> None:
            self.looks += 1

    failing, fine = Failing(), Fine()
    loop = CourseLoop(Courses(interval=0.1), LOG)
    loop.add_pieces(failing, Hanging(), fine)
    task = asyncio.create_task(loop.run())
    try:
        async with asyncio.timeout(120):
            while failing.looks < 4 or fine.looks < 4:
                await asyncio.sleep(0.01)
            before = fine.looks
            fine.wake.set()
            while fine.looks == before:
                await asyncio.sleep(0.001)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert caplog.text.count("failed; retrying: away") == 1
    assert "broken" in caplog.text
