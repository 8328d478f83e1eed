"""What is known of Slurm stays fresh when the machine's clock is set, ahead or back."""

from __future__ import annotations

import asyncio
import time

import pytest
from stepping_clock import SteppingClock

from portal.errors import SlurmUnavailable
from portal.slurm import Cluster, SlurmRunner
from portal.slurm.commands.run import Output
from portal.slurm.watch.budget import QueryBudget
from portal.slurm.watch.query_cache import QueryCache

STEPS = [(3600.0, -3600.0), (-3600.0,), (-10.0,), (-86_400.0, 86_400.0), (3600.0,), (0.0,)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteppingClock:
    return SteppingClock(monkeypatch)


async def at_once(hurry: asyncio.Event) -> None:
    """Let every question have its turn."""


class Counting:
    """A question whose answer is how often it was asked."""

    def __init__(self) -> None:
        self.asked, self.away = 0, False

    async def __call__(self) -> int:
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
    cache = QueryCache[int]("jobs", at_once, question)
    await cache.newer_than(time.monotonic())
    for number, seconds in enumerate(steps, start=2):
        clock.step(seconds)
        question.away = away
        await cache.newer_than(time.monotonic())
        assert question.asked == number
        assert cache.value == (1 if away else number)
        assert bool(cache.error) is away


@pytest.mark.parametrize("steps", STEPS, ids=str)
async def test_a_step_makes_nothing_older(clock: SteppingClock, steps: tuple[float, ...]) -> None:
    question = Counting()
    cache = QueryCache[int]("jobs", at_once, question)
    await cache.newer_than(time.monotonic())
    for seconds in steps:
        clock.step(seconds)
        await cache.newer_than(time.monotonic() - 60)
    assert question.asked == 1


async def test_the_moment_that_is_shown_is_the_machines_of_now(clock: SteppingClock) -> None:
    cache = QueryCache[int]("jobs", at_once, Counting())
    for seconds in (0.0, 3600.0, -7200.0):
        clock.step(seconds)
        await cache.newer_than(time.monotonic())
        assert cache.taken_at == pytest.approx(time.time(), abs=5)


async def test_a_clock_that_is_set_while_slurm_is_asked(clock: SteppingClock) -> None:
    asked: list[asyncio.Event] = []

    async def question() -> int:
        asked.append(asyncio.Event())
        await asked[-1].wait()
        return len(asked)

    cache = QueryCache[int]("jobs", at_once, question)
    first = asyncio.create_task(cache.newer_than(time.monotonic()))
    await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    clock.step(-3600)
    asked[0].set()
    await first
    second = asyncio.create_task(cache.newer_than(time.monotonic()))
    await asyncio.sleep(0.01)
    asked[1].set()
    await asyncio.wait_for(second, 5)
    assert cache.value == 2


# -- turns, haste and patience -------------------------------------------------------------------


class Turns:
    """Turns that the test gives, or that somebody takes who cannot wait."""

    def __init__(self) -> None:
        self.taken, self.may = 0, asyncio.Event()

    async def __call__(self, hurry: asyncio.Event) -> None:
        waiting = [asyncio.create_task(one.wait()) for one in (hurry, self.may)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()
        self.taken += 1


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_all_who_wait_share_a_turn_and_a_question() -> None:
    take, question = Turns(), Counting()
    cache = QueryCache[int]("jobs", take, question)
    waiting = [asyncio.create_task(cache.newer_than(time.monotonic())) for _ in range(20)]
    await turns()
    assert (take.taken, question.asked, cache.value) == (0, 0, None)
    waiting[0].cancel()
    take.may.set()
    await asyncio.wait_for(asyncio.gather(*waiting[1:]), 5)
    assert (take.taken, question.asked, cache.value) == (1, 1, 1)


async def test_a_turn_that_comes_late_is_no_age() -> None:
    take = Turns()
    cache = QueryCache[int]("jobs", take, Counting())
    waiting = asyncio.create_task(cache.newer_than(time.monotonic()))
    await asyncio.sleep(0.05)
    later = time.monotonic()
    also = asyncio.create_task(cache.newer_than(later))
    await turns()
    take.may.set()
    await asyncio.wait_for(asyncio.gather(waiting, also), 5)
    assert cache.asked_at >= later and take.taken == 1


async def test_who_cannot_wait_hurries_the_turn_of_all() -> None:
    take = Turns()
    cache = QueryCache[int]("jobs", take, Counting())
    patient = asyncio.create_task(cache.newer_than(time.monotonic()))
    await turns()
    await asyncio.wait_for(cache.newer_than(time.monotonic(), urgent=True), 5)
    await asyncio.wait_for(patient, 5)
    assert (take.taken, cache.value) == (1, 1)
    patient = asyncio.create_task(cache.newer_than(time.monotonic()))
    await turns()
    assert not patient.done()  # the haste is over
    take.may.set()
    await asyncio.wait_for(patient, 5)


@pytest.mark.parametrize("first", ["patient", "urgent"])
async def test_who_cannot_wait_hurries_the_turn_after_a_question_under_way(first: str) -> None:
    take, go, asked = Turns(), asyncio.Event(), 0

    async def question() -> int:
        nonlocal asked
        asked += 1
        await go.wait()
        return asked

    cache = QueryCache[int]("jobs", take, question)
    take.may.set()
    before = asyncio.create_task(cache.newer_than(time.monotonic()))
    await turns()
    take.may.clear()
    kinds = (False, True) if first == "patient" else (True, False)
    after = [
        asyncio.create_task(cache.newer_than(time.monotonic(), urgent=urgent)) for urgent in kinds
    ]
    await turns()
    assert asked == 1
    go.set()
    await asyncio.wait_for(asyncio.gather(before, *after), 5)
    assert (take.taken, cache.value) == (2, 2)


async def test_a_late_answer_is_an_error_for_all_until_it_comes() -> None:
    go, question = asyncio.Event(), Counting()

    async def slow() -> int:
        if question.asked:
            await go.wait()
        return await question()

    cache = QueryCache[int]("jobs", at_once, slow, lambda: 0.01)
    await cache.newer_than(time.monotonic())
    for _ in range(2):
        await asyncio.wait_for(cache.newer_than(time.monotonic()), 5)
        assert (cache.value, cache.error) == (1, "Slurm has not answered for 0.01 s.")
    await cache.late_answer(0.01)
    assert cache.error
    waiting = asyncio.create_task(cache.late_answer(60))
    await turns()
    go.set()
    await asyncio.wait_for(waiting, 5)
    assert (cache.value, cache.error) == (2, "")


async def test_one_that_failed_is_not_waited_for_when_it_is_late() -> None:
    question, hangs = Counting(), asyncio.Event()

    async def ask() -> int:
        if question.away and question.asked > 1:
            await hangs.wait()
        return await question()

    cache = QueryCache[int]("jobs", at_once, ask, lambda: 0.01)
    await cache.newer_than(time.monotonic())
    question.away = True
    for _ in range(2):  # it fails, and hangs
        await asyncio.wait_for(cache.newer_than(time.monotonic()), 5)
        assert (cache.value, cache.error) == (1, "Slurm does not answer.")
    await asyncio.wait_for(cache.late_answer(60), 5)
    hangs.set()


async def test_the_first_answer_is_waited_for_however_late() -> None:
    go = asyncio.Event()

    async def slow() -> int:
        await go.wait()
        return 1

    cache = QueryCache[int]("jobs", at_once, slow, lambda: 0.0)
    waiting = asyncio.create_task(cache.newer_than(time.monotonic()))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    go.set()
    await asyncio.wait_for(waiting, 5)
    assert (cache.value, cache.error) == (1, "")


async def test_an_answer_that_is_not_understood_is_a_sentence() -> None:
    async def odd() -> int:
        raise ValueError("12 fields")

    cache = QueryCache[int]("nodes", at_once, odd)
    await cache.newer_than(time.monotonic())
    assert cache.error == ("The portal cannot read Slurm's answer about nodes: 12 fields.")


async def test_a_budget_is_waited_for_unless_somebody_cannot() -> None:
    budget, hurry = QueryBudget(rate=0.001, burst=2, urgent_interval=0.05), asyncio.Event()
    await asyncio.wait_for(budget.take(2, hurry=hurry), 5)
    waiting = asyncio.create_task(budget.take(2, hurry=hurry))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    hurry.set()
    await asyncio.wait_for(waiting, 5)
    began = time.monotonic()
    await asyncio.wait_for(budget.take(2, hurry=hurry), 5)
    assert time.monotonic() - began >= 0.04  # the least interval, in a hurry too
    await asyncio.wait_for(budget.take(2), 5)


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
