"""The meter with a real database: restarts, outages, lost answers, and what accounting adds."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from clusters import job
from session_records import recorded

from portal.errors import SlurmUnavailable, StoreUnavailable
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState
from portal.models.cluster.gpu import GpuReading
from portal.models.session.session import SessionState
from portal.models.session.usage import JobUsage
from portal.sessions.meter import UsageMeter
from portal.store import Store

T = 1_795_262_400.0  # 2026-11-21T12:00:00Z


def a_job(**words: Any) -> Job:
    times = {"submit_time": T - 10, "start_time": T, "end_time": T + 864_000}
    return job(**{"id": "7", "held": {"gpu01": (0, 1)}, **times, **words})


class Service:
    """One run of the service: its meter, and two clocks that the test moves."""

    def __init__(self, store: Store, at: float, ended: Any = None) -> None:
        self.store, self.at, self.up = store, at, 1000.0
        self.asked: list[float] = []
        self.ended = ended
        self.log = logging.getLogger("test-usage")
        self.meter = UsageMeter(store, self.log, self.ended_jobs, lambda: self.up)

    async def ended_jobs(self, seconds: float) -> Sequence[Job] | None:
        self.asked.append(self.at - seconds)
        return self.ended() if callable(self.ended) else self.ended

    async def see(self, *jobs: Job, after: float = 0, share: float | None = None) -> None:
        """One refresh ``after`` seconds, and the background work that it started."""
        self.at += after
        self.up += after
        snapshot = ClusterSnapshot(taken_at=self.at, jobs={job.id: job for job in jobs})
        readings = {
            ("gpu01", index): GpuReading(
                node="gpu01", index=index, at=self.at, source="simulated", utilization=share
            )
            for index in (0, 1)
            if share is not None
        }
        await self.meter.see(
            snapshot, readings, lambda one: (one.utilization or 0) >= 5, {}, self.at
        )
        await self.meter.settle()

    async def begin(self, *jobs: Job) -> None:
        """The refresh in which the marks are read, and the one that counts."""
        await self.see()
        await self.see(*jobs, after=1)

    async def end(self) -> None:
        await self.meter.close(self.at)


async def sums(store: Store) -> tuple[int, int, int]:
    """Held, used and measured GPU-seconds of everyone, rounded."""
    rows = await store.usage.totals(by="user", period="month", start=T - 10**6, end=T + 10**8)
    held = sum(row.held_hours for row in rows)
    measured = sum(row.held_hours * row.measured_share for row in rows)
    used = sum(row.used_hours or 0 for row in rows)
    return round(held * 3600), round(used * 3600), round(measured * 3600)


async def test_a_running_job_is_written_once_a_minute(store: Store) -> None:
    service = Service(store, T + 9)
    await service.begin(a_job())
    assert await sums(store) == (20, 0, 0)  # from its start, before anybody looked
    for _ in range(11):
        await service.see(a_job(), after=5, share=80)
    assert await sums(store) == (20, 0, 0)
    await service.see(a_job(), after=5, share=0)
    assert await sums(store) == (140, 110, 120)


async def test_nothing_is_lost_or_doubled_by_a_restart(store: Store) -> None:
    first = Service(store, T + 9)
    await first.begin(a_job())
    await first.see(a_job(), after=5)
    await first.end()
    again = Service(store, T + 3615, ended=[])
    await again.begin(a_job())
    await again.end()
    assert await sums(store) == (2 * 3616, 0, 0)


async def test_a_service_that_was_killed_counts_from_its_last_mark(store: Store) -> None:
    killed = Service(store, T + 9)
    await killed.begin(a_job())
    await killed.see(a_job(), after=30, share=50)  # in memory only
    again = Service(store, T + 99, ended=[])
    await again.begin(a_job())
    await again.end()
    assert await sums(store) == (200, 0, 0)


async def test_jobs_that_came_and_went_while_the_service_was_down(store: Store) -> None:
    await store.sessions.save(
        recorded(
            id="s8",
            user="Barbara",
            account="barbara",
            environment="jupyterlab",
            job_id="8",
            state=SessionState.ENDED,
            submitted_at=T + 100,
        )
    )
    first = Service(store, T + 9)
    await first.begin(a_job())
    await first.end()
    over = a_job(state=JobState.COMPLETED, end_time=T + 20)
    short = a_job(
        id="8",
        user="barbara",
        state=JobState.TIMEOUT,
        gpus=1,
        submit_time=T + 101,
        start_time=T + 102,
        end_time=T + 112,
    )
    older = a_job(id="6", state=JobState.COMPLETED, end_time=T + 5)  # was counted or not ours
    again = Service(store, T + 3600, ended=[over, short, older])
    await again.begin()
    assert again.asked and again.asked[0] <= T + 10
    await again.end()
    rows = await store.usage.totals(by="user", period="month", start=T, end=T + 86_400)
    held = {row.key: round(row.held_hours * 3600) for row in rows}
    assert held == {"ada": 40, "Barbara": 10}
    of_session = await store.usage.of_sessions(["s8"])
    assert of_session["s8"].environment == "jupyterlab"
    assert all(row.used_hours is None for row in rows)  # nobody measured it
    assert await store.usage.accounted_until() == {("", 0): pytest.approx(T + 3601, abs=0.01)}
    third = Service(store, T + 3700, ended=[over, short, older])
    await third.begin()
    await third.end()
    assert (await sums(store))[0] == 50


async def test_accounting_that_is_away_is_asked_again(store: Store) -> None:
    first = Service(store, T + 9)
    await first.begin(a_job())
    await first.end()
    answers: list[Any] = [SlurmUnavailable("slurmdbd does not answer."), None]
    over = a_job(state=JobState.COMPLETED, end_time=T + 20)

    def ended() -> Any:
        if isinstance(answers[0], Exception):
            raise answers[0]
        return [over]

    again = Service(store, T + 3600, ended=ended)
    await again.begin()
    await again.see(after=61)
    assert (await sums(store))[0] == 20
    assert ("7", int(T - 10)) in await store.usage.accounted_until()
    answers.pop(0)
    await again.see(after=61)
    await again.end()
    assert (await sums(store))[0] == 40
    asked = len(again.asked)
    await again.see(after=50)
    await again.see(after=50)
    assert len(again.asked) == asked  # answered: no more questions


async def test_a_site_without_accounting_leaves_a_lost_job_as_it_was_counted(store: Store) -> None:
    first = Service(store, T + 9)
    await first.begin(a_job())
    await first.end()
    again = Service(store, T + 3600, ended=None)
    await again.begin()
    await again.end()
    assert await sums(store) == (20, 0, 0)
    assert ("7", int(T - 10)) not in await store.usage.accounted_until()


async def test_a_slurm_that_was_away_for_long_is_caught_up(store: Store) -> None:
    over = a_job(state=JobState.NODE_FAIL, end_time=T + 300)
    service = Service(store, T + 9, ended=[over])
    await service.begin(a_job())
    stale = ClusterSnapshot(taken_at=service.at, jobs={"7": a_job()}, error="Slurm is away.")
    for _ in range(3):
        service.at += 100
        service.up += 100
        await service.meter.see(stale, {}, lambda one: None, {}, service.at)
        await service.meter.settle()
    assert await sums(store) == (20, 0, 0)  # a failed question ends nothing and adds nothing
    await service.see(after=500)  # Slurm is back, and has forgotten the job
    await service.see(after=61)
    await service.end()
    assert await sums(store) == (600, 0, 0)


class Broken:
    """A usage table whose ``add`` fails before or after it did what it should."""

    def __init__(self, real: Any, when: str) -> None:
        self.real, self.when, self.calls = real, when, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    async def add_seconds(self, *args: Any, **more: Any) -> None:
        self.calls += 1
        if self.when == "after":
            await self.real.add_seconds(*args, **more)
        if self.when:
            raise StoreUnavailable("The portal's database does not answer.")
        await self.real.add_seconds(*args, **more)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_write_whose_answer_is_lost_is_not_added_twice(
    store: Store, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(store, T + 9)
    real = store.usage
    broken: Any = Broken(real, when)
    store.usage = broken
    await service.begin(a_job())
    for _ in range(13):
        await service.see(a_job(), after=10, share=100)
    assert broken.calls >= 1
    broken.when = ""
    for _ in range(13):
        await service.see(a_job(), after=10, share=100)
    await service.end()
    store.usage = real
    assert await sums(store) == (2 * 270, 2 * 260, 2 * 260)
    said = [one for one in caplog.records if "accounted later" in one.getMessage()]
    assert len(said) == 1  # once, not every minute


async def test_a_database_that_is_away_at_the_start(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "portal.sqlite"
    away = tmp_path / "away"
    path.rename(away)
    service = Service(store, T + 9, ended=[])
    await service.begin(a_job())
    await service.see(a_job(), after=61)
    away.rename(path)
    for _ in range(4):
        await service.see(a_job(), after=61)
    await service.end()
    assert (await sums(store))[0] == 2 * round(service.at - T)


async def test_the_same_snapshot_again_changes_nothing(store: Store) -> None:
    service = Service(store, T + 9)
    await service.begin(a_job())
    for _ in range(3):
        await service.see(a_job())
    await service.end()
    assert await sums(store) == (20, 0, 0)


@pytest.mark.parametrize("leap", [-86_400.0, 86_400.0 * 365, -300.0])
async def test_a_clock_that_is_set(store: Store, leap: float) -> None:
    service = Service(store, T + 9)
    await service.begin(a_job(end_time=None))
    service.at += leap
    moved = a_job(end_time=None, start_time=T + leap)
    for _ in range(20):
        await service.see(moved, after=30, share=90)
    await service.end()
    held, used, measured = await sums(store)
    assert held <= 2 * 610
    assert held >= 2 * (610 - (300 if leap == -300 else 30))
    assert 0 <= used == measured <= held


async def test_marks_of_a_clock_that_was_ahead(store: Store) -> None:
    await store.usage.add_seconds(
        [JobUsage(job_id="7", submitted_at=int(T - 10), day="2026-11-21", user="ada", held=20)],
        until={("7", int(T - 10)): T + 10**8, ("", 0): T + 10**8},
    )
    service = Service(store, T + 9, ended=[])
    await service.begin(a_job())
    await service.see(a_job(), after=60)
    await service.end()
    assert await sums(store) == (20 + 2 * 61, 0, 0)


async def test_a_look_that_was_cancelled_is_not_overtaken(store: Store) -> None:
    service = Service(store, T + 9)
    await service.begin(a_job())
    began, go_on = threading.Event(), threading.Event()
    order: list[str] = []
    meter = service.meter
    look, take = meter._look, meter._time.take

    def slow_look(*given: Any) -> None:
        began.set()
        go_on.wait(5)
        look(*given)
        order.append("looked")

    def taken() -> Any:
        order.append("taken")
        return take()

    meter._look, meter._time.take = slow_look, taken
    seeing = asyncio.ensure_future(service.see(a_job(), after=5))
    await asyncio.to_thread(began.wait, 5)
    seeing.cancel()
    closing = asyncio.ensure_future(meter.close(service.at))
    await asyncio.sleep(0.2)
    go_on.set()
    await closing
    assert order == ["looked", "taken"]
