"""What is known of Slurm stays fresh when the machine's clock is set, ahead or back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from stepping_clock import SteppingClock

from portal.errors import SlurmUnavailable
from portal.slurm import Cluster, SlurmRunner
from portal.slurm.run import Output
from portal.slurm.watched import Watched

STEPS = [(3600.0, -3600.0), (-3600.0,), (-10.0,), (-86_400.0, 86_400.0), (3600.0,), (0.0,)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteppingClock:
    return SteppingClock(monkeypatch)


class Counting:
    """A question whose answer is how often it was asked."""

    def __init__(self) -> None:
        self.asked, self.away = 0, False

    async def __call__(self, urgent: bool, started: Callable[[], None]) -> int:
        started()
        self.asked += 1
        if self.away:
            raise SlurmUnavailable("Slurm does not answer.")
        return self.asked


@pytest.mark.parametrize("steps", STEPS, ids=str)
@pytest.mark.parametrize("away", [False, True])
async def test_every_wish_for_now_is_asked_after_a_step(
    clock: SteppingClock, steps: tuple[float, ...], away: bool
) -> None:
    question = Counting()
    watched = Watched[int]("jobs", question)
    await watched.newer_than(time.monotonic())
    for number, seconds in enumerate(steps, start=2):
        clock.step(seconds)
        question.away = away
        await watched.newer_than(time.monotonic())
        assert question.asked == number
        assert watched.value == (1 if away else number)
        assert bool(watched.error) is away


@pytest.mark.parametrize("steps", STEPS, ids=str)
async def test_a_step_makes_nothing_older(clock: SteppingClock, steps: tuple[float, ...]) -> None:
    question = Counting()
    watched = Watched[int]("jobs", question)
    await watched.newer_than(time.monotonic())
    for seconds in steps:
        clock.step(seconds)
        await watched.newer_than(time.monotonic() - 60)
    assert question.asked == 1


async def test_the_moment_that_is_shown_is_the_machines_of_now(clock: SteppingClock) -> None:
    watched = Watched[int]("jobs", Counting())
    for seconds in (0.0, 3600.0, -7200.0):
        clock.step(seconds)
        await watched.newer_than(time.monotonic())
        assert watched.taken_at == pytest.approx(time.time(), abs=5)


async def test_a_clock_that_is_set_while_slurm_is_asked(clock: SteppingClock) -> None:
    asked: list[asyncio.Event] = []

    async def question(urgent: bool, started: Callable[[], None]) -> int:
        started()
        asked.append(asyncio.Event())
        await asked[-1].wait()
        return len(asked)

    watched = Watched[int]("jobs", question)
    first = asyncio.create_task(watched.newer_than(time.monotonic()))
    await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    clock.step(-3600)
    asked[0].set()
    await first
    second = asyncio.create_task(watched.newer_than(time.monotonic()))
    await asyncio.sleep(0.01)
    asked[1].set()
    await asyncio.wait_for(second, 5)
    assert watched.value == 2


class Silent(SlurmRunner):
    """Slurm with an empty cluster, which counts the looks at its queue."""

    looks = 0
    away = False

    async def run(self, argv: object, *_: object, **__: object) -> Output:
        assert isinstance(argv, list | tuple)
        if self.away:
            raise SlurmUnavailable("Slurm does not answer.")
        self.looks += "squeue" in str(argv[0])
        return Output("", "", 0)


@pytest.mark.parametrize("steps", STEPS, ids=str)
async def test_the_snapshot_goes_on_and_its_age_is_true(
    clock: SteppingClock, steps: tuple[float, ...]
) -> None:
    runner = Silent()
    cluster = Cluster(runner=runner, rpcs_per_second=1000.0, burst=1000, urgent_interval=0.0)
    try:
        await cluster.snapshot()
        for seconds in steps:
            clock.step(seconds)
            before, asked = runner.looks, time.monotonic()
            made = await cluster.snapshot(asked, jobs_only=True, urgent=True)
            assert runner.looks == before + 1
            assert made.asked_at is not None and made.asked_at >= asked
            assert made.age < 5 and made.error == ""
            # Slurm goes away, and the clock is set: the snapshot says how old it really is.
            runner.away = True
            clock.step(-2 * seconds)
            kept = await cluster.snapshot(time.monotonic(), jobs_only=True, urgent=True)
            assert kept.error and kept.asked_at == made.asked_at and kept.age < 5
            clock.step(2 * seconds)
            runner.away = False
    finally:
        cluster.close()
