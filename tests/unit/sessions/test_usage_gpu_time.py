"""GPU time by job and day: the arithmetic, with a clock that the tests move."""

from __future__ import annotations

from typing import Any

import pytest
from clusters import job
from session_records import recorded

from portal.models.cluster.cluster import Job, JobState
from portal.models.cluster.gpu import GpuReading
from portal.models.session.usage import JobUsage
from portal.sessions.gpu_time import GpuTime, by_day

MIDNIGHT = 1_795_305_600.0  # 2026-11-22T00:00:00Z
NOON = MIDNIGHT - 43_200
KEY = ("7", int(NOON - 10))


def a_job(**words: Any) -> Job:
    times = {"submit_time": NOON - 10, "start_time": NOON, "end_time": NOON + 864_000}
    return job("7", **{"held": {"gpu01": (0, 1)}, **times, **words})


def reading(index: int, at: float, utilization: float | None) -> dict[tuple[str, int], GpuReading]:
    one = GpuReading(node="gpu01", index=index, at=at, source="simulated", utilization=utilization)
    return {("gpu01", index): one}


def busy(one: GpuReading) -> bool | None:
    return None if one.utilization is None else one.utilization >= 5


class Watch:
    """A meter's arithmetic, looked through: ``see`` at moments, then ``rows`` by day."""

    def __init__(self, marks: dict[Any, float] | None = None, looked_at: float | None = None):
        self.time = GpuTime(marks or {}, looked_at)

    def see(self, at: float, *jobs: Job, **more: Any) -> set[Any]:
        readings = more.get("readings", {})
        sessions = more.get("sessions", {})
        return self.time.count_until({job.id: job for job in jobs}, at, readings, busy, sessions)

    def rows(self) -> dict[str, JobUsage]:
        batch = self.time.take()
        rows = {row.day: row for row in batch.rows}
        assert len(rows) == len(batch.rows), "one job in these tests"
        return rows

    def sums(self) -> tuple[float, float, float]:
        rows = self.rows().values()
        return (
            sum(row.held for row in rows),
            sum(row.used for row in rows),
            sum(row.measured for row in rows),
        )


def test_days_are_utc() -> None:
    assert list(by_day(MIDNIGHT - 30, MIDNIGHT + 86_400 + 5)) == [
        ("2026-11-21", 30),
        ("2026-11-22", 86_400),
        ("2026-11-23", 5),
    ]
    assert list(by_day(5, 5)) == list(by_day(9, 5)) == []
    assert list(by_day(MIDNIGHT - 1, MIDNIGHT)) == [("2026-11-21", 1)]


def test_a_job_holds_from_its_start_though_nobody_looked() -> None:
    watch = Watch()
    watch.see(NOON + 100, a_job())
    assert watch.sums() == (200, 0, 0)
    watch.see(NOON + 105, a_job())
    assert watch.sums() == (10, 0, 0)


def test_an_hour_of_nobody_looking_loses_no_held_time() -> None:
    watch = Watch({KEY: NOON + 50}, looked_at=NOON + 50)
    watch.see(NOON + 3650, a_job())
    assert watch.sums() == (7200, 0, 0)


def test_used_and_measured_are_of_the_time_since_the_last_look() -> None:
    watch = Watch()
    for at, share in ((100, 90.0), (105, 90.0), (110, 1.0), (115, 1.0)):
        now = NOON + at
        readings = reading(0, now - 1, share) | reading(1, now - 1, None)
        watch.see(now, a_job(), readings=readings)
    # The first look measures nothing: nobody looked before. Then one GPU is known, for 15 s.
    assert watch.sums() == (230, 5, 15)


def test_a_gap_is_held_and_not_measured() -> None:
    watch = Watch()
    for at in (10, 20, 1000, 1010):
        now = NOON + at
        readings = reading(0, now, 90.0) | reading(1, now, 0.0)
        watch.see(now, a_job(), readings=readings)
    assert watch.sums() == (2020, 20, 40)


@pytest.mark.parametrize(
    ("at", "counts"),
    [(95, True), (-30, True), (-121, False), (300, False), (-200, False)],
)
def test_a_reading_counts_while_it_is_fresh(at: float, counts: bool) -> None:
    watch = Watch()
    watch.see(NOON + 1000, a_job())
    watch.see(NOON + 1005, a_job(), readings=reading(0, NOON + 1005 + at, 50.0))
    assert watch.sums()[1:] == ((5, 5) if counts else (0, 0))


def test_a_reading_from_before_the_job_is_about_the_job_before() -> None:
    watch = Watch(looked_at=NOON - 5)
    watch.see(NOON - 1)
    watch.see(NOON + 4, a_job(), readings=reading(0, NOON - 2, 99.0))
    assert watch.sums() == (8, 0, 0)


def test_a_job_that_began_between_two_looks_is_measured_from_its_start_only() -> None:
    watch = Watch()
    watch.see(NOON - 3)
    watch.see(NOON + 4, a_job(), readings=reading(0, NOON + 3, 99.0))
    assert watch.sums() == (8, 4, 4)


def test_a_job_is_split_at_midnight() -> None:
    watch = Watch()
    watch.see(MIDNIGHT - 2, a_job())
    watch.time.take()
    watch.see(MIDNIGHT + 3, a_job(), readings=reading(1, MIDNIGHT + 2, 80.0))
    rows = watch.rows()
    assert {day: (row.held, row.used, row.measured) for day, row in rows.items()} == {
        "2026-11-21": (4, 2, 2),
        "2026-11-22": (6, 3, 3),
    }


def test_an_end_between_two_looks_counts_to_its_second() -> None:
    watch = Watch()
    watch.see(NOON + 10, a_job())
    over = a_job(state=JobState.COMPLETED, end_time=NOON + 13, gpu_indexes={})
    for at in (15, 20, 25):
        assert watch.see(NOON + at, over) == set()
    batch = watch.time.take()
    assert sum(row.held for row in batch.rows) == 26
    assert batch.closed == {KEY} and not batch.marks


def test_a_job_that_lived_between_two_looks_counts_whole() -> None:
    watch = Watch()
    watch.see(NOON - 1)
    over = a_job(state=JobState.FAILED, end_time=NOON + 3)
    watch.see(NOON + 4, over)
    watch.see(NOON + 9, over)
    assert watch.sums() == (6, 0, 0)


def test_ends_from_before_the_first_look_ever_are_not_ours() -> None:
    watch = Watch()
    watch.see(NOON + 50, a_job(state=JobState.COMPLETED, end_time=NOON + 20))
    watch.see(NOON + 55, a_job(state=JobState.COMPLETED, end_time=NOON + 20))
    assert watch.sums() == (0, 0, 0)


def test_an_end_that_was_counted_before_a_restart_is_not_counted_again() -> None:
    over = a_job(state=JobState.COMPLETED, end_time=NOON + 20)
    watch = Watch(looked_at=NOON + 25)  # closed: it has no mark
    watch.see(NOON + 60, over)
    assert watch.sums() == (0, 0, 0)
    missed = Watch(looked_at=NOON + 15)  # began and ended while the service was down
    missed.see(NOON + 60, over)
    assert missed.sums() == (40, 0, 0)
    seen = Watch({KEY: NOON + 15}, looked_at=NOON + 15)
    seen.see(NOON + 60, over)
    assert seen.sums() == (10, 0, 0)


def test_suspended_time_is_not_held() -> None:
    watch = Watch()
    watch.see(NOON + 10, a_job())
    for at in (15, 20):
        watch.see(NOON + at, a_job(state=JobState.SUSPENDED))
    watch.see(NOON + 25, a_job())
    assert watch.sums() == (30, 0, 0)


def test_a_requeued_job_counts_its_next_run_from_its_own_start() -> None:
    watch = Watch()
    watch.see(NOON + 10, a_job())
    watch.see(NOON + 15, a_job(state=JobState.PENDING, start_time=None, end_time=None))
    watch.see(NOON + 100, a_job(start_time=NOON + 90))
    batch = watch.time.take()
    assert sum(row.held for row in batch.rows) == 40
    assert batch.marks == {KEY: NOON + 100} and not batch.closed


def test_a_state_that_is_not_known_waits_and_is_caught_up() -> None:
    watch = Watch()
    watch.see(NOON + 10, a_job())
    assert watch.see(NOON + 15, a_job(state=JobState.UNKNOWN)) == set()
    watch.see(NOON + 20, a_job())
    assert watch.sums() == (40, 0, 0)


def test_a_job_that_slurm_no_longer_names_is_missing_and_holds_no_more() -> None:
    watch = Watch()
    watch.see(NOON + 10, a_job())
    assert watch.see(NOON + 1000) == {KEY}
    watch.time.end(a_job(state=JobState.COMPLETED, end_time=NOON + 12), None, NOON + 10)
    assert watch.see(NOON + 1005) == set()
    assert watch.sums() == (24, 0, 0)


def test_accounting_repeats_nothing_that_a_look_counted() -> None:
    over = a_job(state=JobState.COMPLETED, end_time=NOON + 12)
    watch = Watch({KEY: NOON + 10}, looked_at=NOON + 10)
    watch.time.remember = True
    watch.see(NOON + 20, over)
    watch.see(NOON + 400)  # Slurm has forgotten it
    watch.time.end(over, None, NOON + 10)
    assert watch.sums() == (4, 0, 0)


class TestClocks:
    def test_a_clock_that_goes_back_counts_nothing_twice(self) -> None:
        watch = Watch()
        readings = reading(0, NOON + 100, 90.0)
        for at in (100, 105, 95, 100, 105, 110):
            watch.see(NOON + at, a_job(), readings=readings)
        held, used, measured = watch.sums()
        assert held == 220
        assert 0 <= used == measured <= 10

    def test_no_job_holds_more_than_its_time_limit(self) -> None:
        watch = Watch()
        watch.see(NOON + 10, a_job(end_time=NOON + 60))
        watch.see(NOON + 10**9, a_job(end_time=NOON + 60))
        assert watch.sums() == (120, 0, 0)

    @pytest.mark.parametrize("leap", [-(10.0**8), -7200.0, 7200.0, 10.0**8])
    def test_a_clock_that_was_set_anew(self, leap: float) -> None:
        """Slurm's times move along, since its clock is set too."""
        watch = Watch()
        watch.see(NOON + 10, a_job(end_time=None))
        watch.time.shift(leap)
        watch.see(NOON + 15 + leap, a_job(start_time=NOON + leap, end_time=None))
        watch.see(NOON + 20 + leap, a_job(start_time=NOON + leap, end_time=None))
        assert watch.sums()[0] == 40

    def test_a_start_in_the_future_holds_nothing_yet(self) -> None:
        watch = Watch()
        watch.see(NOON - 60, a_job())
        assert watch.sums() == (0, 0, 0)
        watch.see(NOON + 5, a_job())
        assert watch.sums() == (10, 0, 0)


class TestWhose:
    def test_a_session_brings_its_owner_environment_and_groups(self) -> None:
        session = recorded(
            id="s1",
            user="Ada",
            account="ada",
            groups=("physics",),
            environment="jupyterlab",
            space="ml-1",
            job_id="7",
            submitted_at=NOON - 10,
        )
        watch = Watch()
        watch.see(NOON + 5, a_job())
        watch.see(NOON + 10, a_job(), sessions={"7": session})  # the Hub wrote it a moment later
        (row,) = watch.rows().values()
        assert (row.user, row.account, row.groups) == ("Ada", "research", ("physics",))
        assert (row.environment, row.course, row.session_id) == ("jupyterlab", "ml-1", "s1")
        watch.see(NOON + 15, a_job())  # and once known, it stays known
        assert [one.session_id for one in watch.rows().values()] == ["s1"]

    def test_a_job_beside_the_portal_counts_for_its_user(self) -> None:
        watch = Watch()
        watch.see(NOON + 5, a_job(user="barbara"))
        (row,) = watch.rows().values()
        assert (row.user, row.environment, row.session_id, row.groups) == ("barbara", "", "", ())

    def test_a_job_without_gpus_is_left_out(self) -> None:
        watch = Watch()
        watch.see(NOON + 5, a_job(gpus=0, gpu_indexes={}))
        batch = watch.time.take()
        assert not batch.rows and not batch.marks
