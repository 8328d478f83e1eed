"""Whether a session's GPUs are idle, and what follows: every rule, with a clock of the test."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from clusters import job, record
from fake_hub import FakeHub

from portal.errors import Conflict, HubUnavailable, NotFound, StoreUnavailable
from portal.models.audit import AuditEntry, Outcome
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState
from portal.models.cluster.gpu import GpuReading
from portal.models.session.activity import SessionActivity
from portal.models.session.idle import IdleMode, IdleState
from portal.models.session.session import SessionRecord
from portal.sessions.idle import (
    IdleClock,
    IdleFindings,
    Rules,
    due,
    next_clock,
    snoozed,
    state,
    stops_at,
)
from portal.sessions.idle_gpus import IdleContext, IdleGpus
from portal.sessions.idle_settings import IdleSettings
from portal.store.sessions.snoozes import Snooze
from portal.telemetry import Telemetry

RULES = Rules(mode=IdleMode.ON, limit=3600, warn=900, snooze=1800, snoozes=2, silence=90)
IDLE = IdleFindings(used=False, age=1e8)
BUSY = IdleFindings(used=True, age=0)
UNKNOWN = IdleFindings(unknown="Nobody knows.")


def walked(
    *steps: tuple[float, IdleFindings], rules: Rules = RULES, every: float = 30
) -> IdleClock:
    """The clock after looks every ``every`` seconds: each step is (seconds until its end, seen)."""
    clock, now = IdleClock(), 0.0
    for seconds, seen in steps:
        end = now + seconds
        while now <= end:
            clock = next_clock(clock, seen, rules, now)
            now += every
    return clock


# -- pure -----------------------------------------------------------------------------------------


def test_idleness_is_counted_from_the_first_look_that_sees_it() -> None:
    clock = walked((1800, IDLE))
    assert clock.since == 0, "not from the age that the session tells: its GPUs were not seen then"
    assert clock.warned_at is None
    assert stops_at(clock, RULES) == 3600
    assert not due(clock, RULES, 1800)


def test_a_warning_comes_first_and_then_the_stop() -> None:
    clock = walked((2700, IDLE))
    assert clock.warned_at == 2700
    assert not due(clock, RULES, 3599)
    assert due(clock, RULES, 3600)


@pytest.mark.parametrize("seen", [BUSY, IdleFindings(used=True), IdleFindings(used=False, age=0)])
def test_use_of_a_gpu_or_a_cell_starts_it_anew(seen: IdleFindings) -> None:
    clock = walked((3000, IDLE), (0, seen), (1800, IDLE))
    assert clock.since is not None and clock.since >= 3000
    assert clock.warned_at is None


def test_a_gpu_without_a_word_of_the_session_is_used_all_the_same() -> None:
    assert walked((3000, IDLE), (0, IdleFindings(used=True, unknown="silent"))).since is None


def test_a_short_cell_between_two_looks_counts_when_it_was_run() -> None:
    clock = next_clock(walked((3000, IDLE)), IdleFindings(used=False, age=12), RULES, 3030)
    assert clock.since == 3018
    assert clock.warned_at is None


def test_what_is_not_known_is_never_idle() -> None:
    clock = walked((3570, IDLE), (0, UNKNOWN))
    assert (clock.since, clock.unknown) == (None, "Nobody knows.")
    assert not due(clock, RULES, 10_000_000)
    assert stops_at(clock, RULES) is None
    again = next_clock(clock, IDLE, RULES, 3700)
    assert again.since == 3700, "it begins anew"
    assert again.unknown == ""


@pytest.mark.parametrize(
    "seen", [IdleFindings(used=None, age=1e8), IdleFindings(used=False, age=None)]
)
def test_half_of_it_is_not_enough(seen: IdleFindings) -> None:
    assert walked((10_000, seen)).since is None


@pytest.mark.parametrize("now", [3570 + 91, 3570 + 10_000, -5])
def test_a_pause_in_which_nobody_looked_starts_it_anew(now: float) -> None:
    """The service hung, or was away: five minutes without a look are no idleness."""
    clock = next_clock(walked((3570, IDLE)), IDLE, RULES, now)
    assert clock.since == now
    assert clock.warned_at is None
    assert not due(clock, RULES, now)


def test_rules_that_became_stricter_still_warn_first() -> None:
    clock = walked((2400, IDLE))
    strict = Rules(mode=IdleMode.ON, limit=600, warn=120, snooze=60, snoozes=1, silence=90)
    clock = next_clock(clock, IDLE, strict, 2430)
    assert not due(clock, strict, 2430)
    assert not due(clock, strict, 2430 + 119)
    assert due(next_clock(clock, IDLE, strict, 2460), strict, 2430 + 120)


def test_warn_only_never_stops() -> None:
    rules = Rules(IdleMode.WARN, 3600, 900, 1800, 2, 90)
    clock = walked((20_000, IDLE), rules=rules)
    assert clock.warned_at == 2700
    assert stops_at(clock, rules) is None
    assert not due(clock, rules, 20_000)


def test_who_is_exempt_is_seen_and_left_alone() -> None:
    rules = Rules(IdleMode.ON, 3600, 900, 1800, 2, 90, exempt="Robots are never stopped.")
    clock = walked((20_000, IDLE), rules=rules)
    assert clock.since == 0
    assert not due(clock, rules, 20_000)
    told = state(clock, rules, 20_000, 1e9)
    assert (told.warned, told.stops_at, told.exempt) == (False, None, "Robots are never stopped.")
    assert told.idle_since == 1e9 - 20_000
    with pytest.raises(Conflict, match=r"Robots are never stopped\. There is nothing to snooze"):
        snoozed(clock, rules, 20_000)


def test_a_warning_is_never_longer_than_half_of_the_time() -> None:
    rules = Rules(IdleMode.ON, 600, 900, 1800, 2, 90)
    assert walked((270, IDLE), rules=rules).warned_at is None
    assert walked((300, IDLE), rules=rules).warned_at == 300


def test_a_snooze_puts_it_off_and_warns_again() -> None:
    clock = snoozed(walked((3000, IDLE)), RULES, 3000)
    assert clock.warned_at is None
    assert stops_at(clock, RULES) == 4800
    assert not due(clock, RULES, 4000)
    for now in range(3030, 4801, 30):
        clock = next_clock(clock, IDLE, RULES, now)
    assert clock.warned_at == 4800 - 900
    assert due(clock, RULES, 4800)


def test_snoozes_are_counted_until_something_is_done() -> None:
    clock = walked((3000, IDLE))
    for now in (3000, 4200):
        clock = snoozed(clock, RULES, now)
        for at in range(int(now), int(now) + 1201, 30):
            clock = next_clock(clock, IDLE, RULES, at)
        assert clock.warned_at is not None
    with pytest.raises(Conflict, match="2 snoozes in a row"):
        snoozed(clock, RULES, 5400)
    assert state(clock, RULES, 5400, 0).snooze == 0
    used = next_clock(clock, BUSY, RULES, 5430)
    assert (used.snoozes, used.snoozed_until) == (0, None)
    cell = next_clock(clock, IdleFindings(used=False, age=5), RULES, 5430)
    assert (cell.snoozes, cell.snoozed_until) == (0, None)
    unknown = next_clock(clock, UNKNOWN, RULES, 5430)
    assert unknown.snoozes == 2, "not knowing is no use"


def test_a_snooze_outlives_a_pause() -> None:
    clock = next_clock(snoozed(walked((3000, IDLE)), RULES, 3000), IDLE, RULES, 3600)
    assert (clock.since, clock.snoozed_until) == (3600, 4800)


def test_there_is_nothing_to_snooze_before_the_warning() -> None:
    with pytest.raises(Conflict, match="not about to be stopped"):
        snoozed(walked((1800, IDLE)), RULES, 1800)
    with pytest.raises(Conflict, match="not about to be stopped"):
        snoozed(walked((1800, BUSY)), RULES, 1800)
    with pytest.raises(Conflict, match="allows no snooze"):
        none = Rules(IdleMode.ON, 3600, 900, 1800, 0, 90)
        snoozed(walked((3000, IDLE), rules=none), none, 3000)


def test_what_people_are_told() -> None:
    clock = walked((3000, IDLE))
    assert state(clock, RULES, 3000, 1e9) == IdleState(
        mode=IdleMode.ON,
        idle_since=1e9 - 3000,
        warned=True,
        stops_at=1e9 + 600,
        save_at=1e9 + 540,
        limit=3600,
        snooze=1800,
        snoozes_left=2,
    )
    put_off = state(snoozed(clock, RULES, 3000), RULES, 3000, 1e9)
    assert (put_off.warned, put_off.snoozed_until, put_off.snoozes_left) == (False, 1e9 + 1800, 1)


# -- the watch -------------------------------------------------------------------------------------


def a_job(**more: Any) -> Job:
    return job(**{"id": "7", "held": {"gpu01": (0, 1)}, "start_time": 0.0, **more})


def a_record(**more: Any) -> SessionRecord:
    usual = {"id": "s1", "job_id": "7", "groups": ("robotics",), "submitted_at": 0.0}
    return record(**{**usual, "environment": "torch", **more})


class FakeTelemetry:
    """Readings that a test sets; None: nobody knows."""

    report_gap = 90.0

    def __init__(self) -> None:
        self.used: list[float | None] = [0.0, 0.0]
        self.at: float | None = None
        self.wall = 0.0

    def readings(self, snapshot: ClusterSnapshot) -> dict[tuple[str, int], GpuReading]:
        return {
            ("gpu01", index): GpuReading(
                node="gpu01",
                index=index,
                at=self.wall if self.at is None else self.at,
                source="dcgm",
                utilization=used,
                mig=used is None,
            )
            for index, used in enumerate(self.used)
        }

    busy = staticmethod(lambda reading: Telemetry.busy(SimpleNamespace(busy_percent=5.0), reading))  # type: ignore[arg-type]


class FakeSnoozes:
    def __init__(self) -> None:
        self.kept: dict[str, Snooze] = {}
        self.away = False

    async def of_sessions(self, ids: Any) -> dict[str, Snooze]:
        if self.away:
            raise StoreUnavailable("The database is away.")
        return {id_: self.kept[id_] for id_ in ids if id_ in self.kept}

    async def set(self, session_id: str, snooze: Snooze) -> None:
        if self.away:
            raise StoreUnavailable("The database is away.")
        self.kept[session_id] = snooze


class World:
    """A service with one session that runs on two GPUs; time goes on in ``go``."""

    def __init__(self, kept: FakeSnoozes | None = None, **settings: Any) -> None:
        self.now, self.wall = 1000.0, 1e9
        self.jobs = {"7": a_job()}
        self.sessions = {"7": a_record()}
        self.telemetry, self.hub = FakeTelemetry(), FakeHub()
        self.snoozes = kept or FakeSnoozes()
        self.times: dict[str, float] = {}
        self.lines: list[AuditEntry] = []
        self.slurm_answers = self.reports = self.seen = True
        self.moving = False
        self.activity = SessionActivity(kernel=1e8, terminal=1e8, processes=1e8)
        self.taken_at = self.wall
        values: dict[str, Any] = {"mode": "on", "idle_time": 3600, **settings}
        parts: Any = self
        context = IdleContext(
            view=self.view,
            interval=lambda: 5.0,
            telemetry=parts.telemetry,
            store=SimpleNamespace(snoozes=self.snoozes),  # type: ignore[arg-type]
            hub=parts.hub,
            idle_times=self.idle_times,
            note=self.note,
            moving=lambda session_id: self.moving and session_id == "s1",
        )
        self.idle = IdleGpus(context, uptime=lambda: self.now, wall=lambda: self.wall, **values)

    async def idle_times(self) -> Mapping[str, float]:
        return self.times

    async def note(self, entry: AuditEntry) -> None:
        self.lines.append(entry)

    def view(self) -> Any:
        if not self.seen:
            return None
        return SimpleNamespace(
            taken_at=self.taken_at,
            snapshot=ClusterSnapshot(taken_at=self.taken_at, jobs=self.jobs),
            sessions=self.sessions,
        )

    def go(self, seconds: float, every: float = 30.0) -> IdleState:
        """Look until ``seconds`` have passed."""

        async def walk() -> None:
            end = self.now + seconds
            while self.now < end:
                self.now += every
                self.wall += every
                self.telemetry.wall = self.wall
                if self.slurm_answers:
                    self.taken_at = self.wall
                if self.reports:
                    self.idle.record_activity("s1", self.activity)
                await self.idle.check_sessions()

        asyncio.run(walk())
        return self.state

    @property
    def state(self) -> IdleState:
        return self.idle.state_of("s1")


def test_the_watch_warns_and_stops_and_says_why() -> None:
    world = World()
    world.go(3000)
    assert world.state.warned and not world.hub.asked
    world.go(690)
    ((user, server, reason),) = world.hub.asked
    assert (user, server, reason.code) == ("ada", "", "idle")
    assert reason.words == "The session's GPUs were idle for 1 h."
    (line,) = world.lines
    assert (line.actor, line.action, line.target, line.owner, line.outcome, line.detail) == (
        "portal",
        "stop-idle-session",
        "session s1",
        "ada",
        Outcome.DONE,
        "The session's GPUs were idle for 1 h.",
    )


def test_a_hub_that_is_away_is_asked_again_later() -> None:
    world = World()
    world.hub.failure = HubUnavailable("The Hub does not answer.")
    world.go(3690)
    assert [line.outcome for line in world.lines] == [Outcome.FAILED] * len(world.hub.asked)
    assert len(world.hub.asked) == 2, "a minute between two"
    assert "The Hub does not answer." in world.lines[0].detail


def test_a_session_that_is_gone_already_leaves_no_line() -> None:
    world = World()
    world.hub.failure = NotFound("There is no such server.")
    world.go(3690)
    assert world.hub.asked and not world.lines


def test_one_gpu_in_use_is_enough() -> None:
    world = World()
    world.telemetry.used = [0.0, 80.0]
    assert world.go(10_000).idle_since is None
    assert not world.hub.asked


def test_a_mig_gpu_is_unknown_and_never_idle() -> None:
    world = World()
    world.telemetry.used = [0.0, None]
    told = world.go(10_000)
    assert (told.idle_since, told.unknown) == (None, "Some GPUs of the session have no reading.")
    assert not world.hub.asked


@pytest.mark.parametrize(
    "job",
    [a_job(gpu_indexes={}), a_job(gpu_indexes={"gpu01": (0,)}), a_job(gpus=3), a_job(gpus=8)],
)
def test_gpus_that_slurm_does_not_name_are_unknown(job: Job) -> None:
    world = World()
    world.jobs["7"] = job
    assert world.go(10_000).idle_since is None
    assert not world.hub.asked


def test_missing_telemetry_and_prometheus_away_are_unknown() -> None:
    world = World()
    world.go(3000)
    world.telemetry.used = []
    assert world.go(60).idle_since is None
    world.telemetry.used = [0.0, 0.0]
    world.go(3000)
    assert not world.hub.asked


def test_a_network_that_is_cut_for_five_minutes_stops_nothing() -> None:
    """The session's reports do not come: it may be busy. Afterwards the time begins anew."""
    world = World()
    world.go(3300)
    assert world.state.warned
    world.reports = False
    told = world.go(300)
    assert (told.warned, told.idle_since) == (False, None)
    assert told.unknown == "The session does not report its activity."
    world.reports = True
    world.go(3300)
    assert not world.hub.asked
    world.go(400)
    assert len(world.hub.asked) == 1


def test_a_session_that_never_says_is_never_idle() -> None:
    world = World()
    world.reports = False
    world.go(10_000)
    world.idle.record_activity("s1", None)
    world.go(100)
    assert not world.hub.asked


@pytest.mark.parametrize(
    "activity",
    [
        SessionActivity(busy_kernels=1, kernel=1e8, terminal=1e8, processes=1e8),
        SessionActivity(kernel=3, terminal=1e8, processes=1e8),
        SessionActivity(kernel=1e8, terminal=3, processes=1e8),
        SessionActivity(kernel=1e8, terminal=1e8, processes=3),
        SessionActivity(kernel=1e8, terminal=1e8, processes=None),
    ],
)
def test_work_in_kernels_and_terminals_keeps_it(activity: SessionActivity) -> None:
    world = World()
    world.activity = activity
    world.go(10_000)
    assert not world.state.warned and not world.hub.asked


def test_an_outage_of_slurm_is_unknown() -> None:
    world = World()
    world.go(3000)
    world.slurm_answers = False
    told = world.go(1000)
    assert told.idle_since is None
    assert told.unknown == "Slurm does not answer."
    assert not world.hub.asked


@pytest.mark.parametrize("jump", [86_400.0, -86_400.0])
def test_a_clock_that_jumps_changes_nothing(jump: float) -> None:
    world = World()
    world.go(1800)
    world.wall += jump
    told = world.go(900)
    assert not world.hub.asked
    assert told.idle_since == pytest.approx(world.wall - 2670)
    world.go(990)
    assert len(world.hub.asked) == 1


def test_a_reading_from_before_the_clock_was_set_back_is_none() -> None:
    world = World()
    world.go(1800)
    world.telemetry.at = world.wall
    world.wall -= 7200
    assert world.go(3000).idle_since is None
    assert not world.hub.asked


def test_a_restart_of_the_service_begins_anew_and_keeps_snoozes() -> None:
    first = World(snooze_time=7200, snoozes=1)
    first.go(3000)
    asyncio.run(first.idle.snooze("s1"))
    assert first.snoozes.kept == {"s1": Snooze(first.wall + 7200, 1)}

    second = World(first.snoozes, snooze_time=7200, snoozes=1)
    second.wall = first.wall + 60
    told = second.go(30)
    assert told.idle_since == second.wall
    assert told.snoozed_until == pytest.approx(first.wall + 7200, abs=1)
    second.go(6000)
    assert not second.hub.asked
    assert second.go(600).warned
    with pytest.raises(Conflict, match="1 snooze in a row"):
        asyncio.run(second.idle.snooze("s1"))


def test_a_snooze_from_a_clock_that_was_ahead_is_not_endless() -> None:
    kept = FakeSnoozes()
    kept.kept["s1"] = Snooze(5e9, 1)
    world = World(kept, snooze_time=600)
    assert (world.go(30).snoozed_until or 0) <= world.wall + 600


def test_nothing_is_stopped_before_the_database_has_said_who_snoozes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = FakeSnoozes()
    kept.away = True
    world = World(kept)
    world.idle.log = logging.getLogger("portal-test")
    assert world.go(10_000).unknown == "The portal's database has not answered yet."
    assert not world.hub.asked
    assert caplog.text.count("Idle GPUs are not checked yet: The database is away.") == 1


def test_a_snooze_counts_while_the_database_is_away() -> None:
    world = World()
    world.go(3000)
    world.snoozes.away = True
    asyncio.run(world.idle.snooze("s1"))
    world.go(1200)
    assert not world.hub.asked


def test_an_environments_own_time_wins() -> None:
    world = World()
    world.times = {"torch": 600.0, "other": 60.0}
    world.go(690)
    assert len(world.hub.asked) == 1
    assert world.state.limit == 600


@pytest.mark.parametrize(
    ("settings", "record", "words"),
    [
        ({"exempt_users": {"ada"}}, {}, "Sessions of ada are"),
        ({"exempt_groups": {"robotics", "x"}}, {}, "Sessions of the group robotics are"),
        (
            {"exempt_courses": {"ml"}},
            {"space": "ml", "server": "course-ml"},
            "Sessions of the course ml are",
        ),
    ],
)
def test_exemptions(settings: Any, record: Any, words: str) -> None:
    world = World(**settings)
    world.sessions["7"] = a_record(**record)
    told = world.go(10_000)
    assert told.exempt == f"{words} never stopped for idle GPUs here."
    assert told.idle_since is not None, "admins see it"
    assert not told.warned and not world.hub.asked


def test_a_session_that_waits_for_other_resources_is_left_alone() -> None:
    """To stop it would call off what its owner has asked for. If nothing comes of that, the owner
    is warned first, as ever."""
    world = World()
    world.moving = True
    told = world.go(10_000)
    assert told.exempt == "The session's resources are being changed."
    assert not told.warned and not world.hub.asked
    world.moving = False
    told = world.go(60)
    assert told.warned and not world.hub.asked
    world.go(1000)
    assert len(world.hub.asked) == 1


@pytest.mark.parametrize(
    "settings",
    [{"exempt_users": {"grace"}}, {"exempt_groups": {"rob"}}, {"exempt_courses": {"", "ml"}}],
)
def test_those_who_are_not_exempt(settings: Any) -> None:
    world = World(**settings)
    world.go(3690)
    assert len(world.hub.asked) == 1


def test_off_is_off_and_warn_only_tells() -> None:
    off = World(mode="off")
    assert off.go(10_000) == IdleState(mode=IdleMode.OFF)
    with pytest.raises(Conflict, match="does not check for idle GPUs"):
        asyncio.run(off.idle.snooze("s1"))
    warn = World(mode="warn")
    told = warn.go(10_000)
    assert told.warned and told.stops_at is None
    assert not off.hub.asked and not warn.hub.asked
    assert IdleSettings().mode == IdleMode.WARN, (
        "nothing is ended that a site has not chosen to end"
    )


@pytest.mark.parametrize(
    "job", [a_job(gpus=0, gpu_indexes={}), a_job(state=JobState.PENDING, nodes=())]
)
def test_sessions_without_gpus_are_no_concern(job: Job) -> None:
    world = World()
    world.jobs["7"] = job
    world.go(10_000)
    assert not world.hub.asked
    with pytest.raises(Conflict, match="The session has no GPUs"):
        asyncio.run(world.idle.snooze("s1"))


def test_a_session_that_the_hub_has_another_in_the_place_of_is_not_stopped_through_it() -> None:
    world = World()
    world.jobs["8"] = a_job(id="8", gpus=0, gpu_indexes={})
    world.sessions["8"] = a_record(id="s2", job_id="8", submitted_at=50.0)
    world.go(10_000)
    assert not world.hub.asked


def test_sessions_that_are_over_are_forgotten() -> None:
    world = World()
    world.go(3000)
    world.sessions = {}
    assert world.go(60) == IdleState(mode=IdleMode.ON)
    assert not world.idle._activity


def test_no_view_no_look() -> None:
    world = World()
    world.go(3000)
    world.seen = False
    world.go(3000)
    assert not world.hub.asked
    world.seen = True
    world.go(30)
    assert not world.hub.asked, "nobody looked for long"


def test_tasks_of_an_array_end_by_themselves() -> None:
    world = World()
    world.jobs = {id_: a_job(id=id_) for id_ in ("7_0", "7_1")}
    world.sessions = dict.fromkeys(world.jobs, a_record())
    world.go(10_000)
    assert not world.hub.asked and not world.state.warned
