"""One question for all who want its answer, and the last answer while none comes."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from stepping_clock import SteppingClock

from portal import cache
from portal.cache import SharedAnswer, SharedAnswers
from portal.errors import NotFound, StoreUnavailable

LONG = 3600.0
AWAY = StoreUnavailable("The database does not answer.")


class Clock:
    """The monotonic clock, which a test moves on; the event loop keeps its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(cache, "time", self)

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Question:
    """Answers 1, 2, 3 …, or raises ``error``; what is ``held`` waits for the test."""

    def __init__(self, error: BaseException | None = None, held: bool = False) -> None:
        self.asked, self.error, self.held = 0, error, held
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    async def __call__(self) -> int:
        self.asked += 1
        number = self.asked
        if self.held:
            self._waiting[number] = asyncio.get_running_loop().create_future()
            await asyncio.wait_for(self._waiting[number], 20)  # a test that fails ends
        if self.error is not None:
            raise self.error
        return number

    async def end(self, number: int, error: BaseException | None = None) -> None:
        """Let the held question of that number end, and all who wait for it go on."""
        if error is None:
            self._waiting.pop(number).set_result(None)
        else:
            self._waiting.pop(number).set_exception(error)
        await turns()


async def turns(number: int = 10) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def ask(get: Awaitable[Any]) -> asyncio.Task[Any]:
    async def wait() -> Any:
        return await get

    return asyncio.get_running_loop().create_task(wait())


async def under_way(question: Question) -> tuple[SharedAnswer[int], asyncio.Task[Any]]:
    """An answer that is asked for, and who waits for it."""
    answer = SharedAnswer(question, ttl=LONG)
    waiting = ask(answer.get())
    await turns()
    return answer, waiting


async def changed_meanwhile(question: Question) -> tuple[SharedAnswer[int], asyncio.Task[Any]]:
    """An answer that has changed since it was asked for, and who waits for it."""
    answer, before = await under_way(question)
    answer.invalidate()
    return answer, before


@asynccontextmanager
async def soon() -> AsyncIterator[None]:
    """Fail where what is inside hangs."""
    async with asyncio.timeout(30):
        yield


# -- one question for all ------------------------------------------------------------------------


async def test_a_hundred_callers_share_one_question() -> None:
    question = Question()
    answer = SharedAnswer(question, ttl=LONG)
    assert await asyncio.gather(*(answer.get() for _ in range(100))) == [1] * 100
    assert await answer.get() == 1
    assert question.asked == 1


@pytest.mark.parametrize("ttl", [0.0, LONG])
async def test_whoever_comes_while_it_is_asked_waits_for_that_question(ttl: float) -> None:
    question = Question(held=True)
    answer = SharedAnswer(question, ttl=ttl)
    first = ask(answer.get())
    await turns()
    second = ask(answer.get())
    await turns()
    assert (question.asked, answer.under_way) == (1, True)
    await question.end(1)
    assert (await first, await second, answer.under_way) == (1, 1, False)


async def test_without_a_time_every_caller_after_the_answer_asks() -> None:
    question = Question()
    answer = SharedAnswer(question, ttl=0.0)
    assert [await answer.get() for _ in range(3)] == [1, 2, 3]


async def test_a_question_that_hangs_is_no_reason_for_another(clock: Clock) -> None:
    question = Question(held=True)
    answer = SharedAnswer(question, ttl=1.0, patience=0.0, first=0)
    for _ in range(5):
        assert await answer.get() == 0
        await turns()
        clock.now += 10
    assert question.asked == 1


async def test_the_question_may_be_the_callers() -> None:
    answer = SharedAnswer[int](ttl=LONG)
    assert await answer.get(Question()) == 1
    answer = SharedAnswer(Question(), ttl=0.0)

    async def other() -> int:
        return 42

    assert [await answer.get(other), await answer.get()] == [42, 1]


# -- callers that go away -----------------------------------------------------------------------


async def test_a_caller_that_is_cancelled_takes_the_answer_from_nobody() -> None:
    question = Question(held=True)
    answer = SharedAnswer(question, ttl=LONG)
    first, second = ask(answer.get()), ask(answer.get())
    await turns()
    first.cancel()
    await turns()
    assert first.cancelled()
    await question.end(1)
    async with soon():
        assert await second == 1
    assert question.asked == 1


async def test_an_answer_is_kept_though_all_who_waited_are_gone() -> None:
    question = Question(held=True)
    answer = SharedAnswer(question, ttl=LONG)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await answer.get()
    await question.end(1)
    assert (answer.last, await answer.get(), question.asked) == (1, 1, 1)


async def test_a_question_that_nobody_holds_is_not_collected() -> None:
    """The event loop has only weak references to tasks."""
    held: weakref.WeakSet[asyncio.Future[None]] = weakref.WeakSet()

    async def question() -> None:
        future = asyncio.get_running_loop().create_future()
        held.add(future)
        await future

    answer = SharedAnswer(question, ttl=LONG)
    answer.expect()
    await turns()
    answer.invalidate()
    gc.collect()
    assert len(held) == 1


async def test_a_question_that_is_cancelled_holds_up_nobody() -> None:
    question = Question(held=True)
    kept, bare = SharedAnswer(question, ttl=0.0, first=0), SharedAnswer(question, ttl=0.0)
    for answer in (kept, bare):
        waiting = ask(answer.get())
        await turns(2)
        assert answer._question is not None
        answer._question.task.cancel()
        await turns()
        assert not answer.under_way
        async with soon():
            if answer is kept:
                assert await waiting == 0
            else:
                with pytest.raises(asyncio.CancelledError):
                    await waiting
    question.held = False
    assert await bare.get() == 3


async def test_one_that_is_cancelled_before_it_began_holds_up_nobody() -> None:
    answer = SharedAnswer(Question(), ttl=LONG, first=0)
    waiting = ask(answer.get())
    await asyncio.sleep(0)
    assert answer._question is not None
    answer._question.task.cancel()
    assert await waiting == 0
    assert await answer.get() == 1


# -- age -----------------------------------------------------------------------------------------


async def test_an_answer_is_as_old_as_its_question(clock: Clock) -> None:
    question = Question(held=True)
    answer = SharedAnswer(question, ttl=10.0)
    assert (answer.age, answer.last) == (float("inf"), None)
    waiting = ask(answer.get())
    await turns()
    clock.now += 4
    await question.end(1)
    assert (await waiting, answer.age, answer.asked_at) == (1, 4.0, 1000.0)
    clock.now += 5.9
    assert await answer.get() == 1
    clock.now += 0.1
    question.held = False
    assert (await answer.get(), answer.age) == (2, 0.0)


async def test_how_long_it_is_fresh_may_follow_from_the_answer(clock: Clock) -> None:
    question = Question()
    answer = SharedAnswer(question, ttl=lambda number: LONG if number > 1 else 5.0)
    assert await answer.get() == 1
    clock.now += 5
    assert await answer.get() == 2
    clock.now += LONG - 1
    assert await answer.get() == 2
    assert await SharedAnswer(question, ttl=lambda _: float("inf"), first=0).get() == 3


STEPS = [(3600.0, -3600.0), (-3600.0,), (-10.0,), (-86_400.0, 86_400.0), (3600.0,), (0.0,)]


@pytest.mark.parametrize("steps", STEPS, ids=str)
@pytest.mark.parametrize("away", [False, True])
async def test_a_step_of_the_machines_clock_is_no_time(
    monkeypatch: pytest.MonkeyPatch, steps: tuple[float, ...], away: bool
) -> None:
    stepping, question = SteppingClock(monkeypatch), Question()
    kept, always = SharedAnswer(question, ttl=60.0), SharedAnswer(question, ttl=0.0)
    assert (await kept.get(), await always.get()) == (1, 2)
    for number, seconds in enumerate(steps, start=3):
        stepping.step(seconds)
        question.error = AWAY if away else None
        assert await kept.get() == 1
        assert kept.age < 5
        await always.get()
        assert await always.get(newer_than=time.monotonic()) == (2 if away else number * 2 - 2)
        assert question.asked == number * 2 - 2


async def test_an_answer_from_a_moment_on(clock: Clock) -> None:
    question = Question()
    answer = SharedAnswer(question, ttl=5.0)
    assert await answer.get() == 1
    clock.now += 3
    assert await answer.get(newer_than=1000.0) == 1
    assert await answer.get(newer_than=1000.1) == 2
    clock.now += LONG
    assert await answer.get(newer_than=1003.0) == 2  # it may be older than ttl
    assert await answer.get(newer_than=clock.now + LONG) == 3  # what is asked now is new enough


async def test_those_who_want_a_later_one_share_the_question_after_it(clock: Clock) -> None:
    question = Question(held=True)
    answer, first = await under_way(question)
    clock.now += 1
    later = [ask(answer.get(newer_than=clock.now)) for _ in range(20)]
    also = ask(answer.get(newer_than=1000.0))
    await turns()
    assert question.asked == 1  # one after the other
    clock.now += 1
    await question.end(1)
    assert (await first, await also, question.asked) == (1, 1, 2)
    await question.end(2)
    assert [await one for one in later] == [2] * 20
    assert question.asked == 2


async def test_a_later_one_that_fails_ends_the_wait(clock: Clock) -> None:
    question = Question()
    for keep in (True, False):
        question.error = None
        answer = SharedAnswer(question, ttl=LONG, keep=keep)
        known = await answer.get()
        clock.now += 1
        question.error = AWAY
        waiting = [ask(answer.get(newer_than=clock.now)) for _ in range(3)]
        before = question.asked
        await turns()
        assert question.asked == before + 1
        for one in waiting:
            if keep:
                assert await one == known
            else:
                with pytest.raises(StoreUnavailable):
                    await one
        assert await answer.get() == known  # fresh still


# -- errors --------------------------------------------------------------------------------------


async def test_an_error_is_for_all_who_wait_where_there_is_no_answer() -> None:
    question = Question(AWAY, held=True)
    answer = SharedAnswer(question, ttl=LONG)
    waiting = [ask(answer.get()) for _ in range(5)]
    await turns()
    await question.end(1)
    for one in waiting:
        with pytest.raises(StoreUnavailable) as raised:
            await one
        assert raised.value is AWAY
    assert (question.asked, answer.last, answer.error) == (1, None, AWAY)


async def test_the_last_answer_stays_through_an_error_with_its_age(clock: Clock) -> None:
    question = Question()
    answer = SharedAnswer(question, ttl=10.0)
    await answer.get()
    clock.now += 30
    question.error = AWAY
    assert await answer.get() == 1
    assert (answer.age, answer.error, answer.last) == (30.0, AWAY, 1)
    question.error = None
    clock.now += 10
    assert await answer.get() == 3
    assert (answer.age, answer.error) == (0.0, None)


async def test_a_first_answer_stands_in_until_there_is_one(clock: Clock) -> None:
    question = Question(AWAY)
    answer = SharedAnswer(question, ttl=10.0, first=0)
    assert (await answer.get(), answer.age, answer.last) == (0, float("inf"), 0)
    assert (question.asked, answer.error) == (1, AWAY)
    question.error = None
    clock.now += 5
    assert await answer.get() == 2


@pytest.mark.parametrize(
    ("retry", "ttl", "pause"), [(5.0, 60.0, 5.0), (5.0, 2.0, 2.0), (0.0, 60.0, 0.0)]
)
@pytest.mark.parametrize("known", [True, False])
async def test_a_failed_question_is_asked_again_sooner(
    clock: Clock, retry: float, ttl: float, pause: float, known: bool
) -> None:
    question = Question()
    answer = SharedAnswer(question, ttl=ttl, retry=retry)
    if known:
        await answer.get()
        clock.now += ttl
    question.error, question.held = AWAY, True
    before = question.asked

    async def fails() -> None:
        if known:
            assert await answer.get() == 1
        else:
            with pytest.raises(StoreUnavailable):
                await answer.get()

    waiting = ask(fails())
    await turns()
    clock.now += 50  # it takes long: the pause begins when it has failed
    await question.end(before + 1)
    await waiting
    question.held = False
    if pause:
        clock.now += pause - 0.1
        await fails()
        assert question.asked == before + 1
        clock.now += 0.1
    await fails()
    assert question.asked == before + 2
    question.error = None
    clock.now += pause
    assert await answer.get() == before + 3


async def test_where_nothing_is_kept_an_error_is_told_and_not_remembered(clock: Clock) -> None:
    question = Question()
    answer = SharedAnswer(question, ttl=10.0, keep=False)
    assert [await answer.get() for _ in range(2)] == [1, 1]
    clock.now += 10
    question.error = NotFound("There is no such course.")
    for number in (2, 3):
        with pytest.raises(NotFound):
            await answer.get()
        assert question.asked == number
    assert answer.last == 1  # for who asks for nothing better
    question.error = None
    assert await answer.get() == 4


async def test_a_traceback_does_not_grow_with_those_who_get_it() -> None:
    answer = SharedAnswer(Question(AWAY), ttl=LONG)
    lengths = []
    for _ in range(5):
        with pytest.raises(StoreUnavailable) as raised:
            await answer.get()
        trace, length = raised.value.__traceback__, 0
        while trace is not None:
            trace, length = trace.tb_next, length + 1
        lengths.append(length)
    assert len(set(lengths[1:])) == 1


@pytest.mark.parametrize("keep", [True, False])
async def test_a_fault_that_nobody_foresaw_is_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, keep: bool
) -> None:
    monkeypatch.setattr(cache, "get_logger", lambda: logging.getLogger("application"))
    question = Question(ZeroDivisionError("oops"))
    answer = SharedAnswer(question, ttl=LONG, keep=keep)
    with pytest.raises(ZeroDivisionError):
        await answer.get()
    (line,) = caplog.records
    assert (line.name, line.levelname) == ("application", "ERROR")
    assert line.exc_info and isinstance(line.exc_info[1], ZeroDivisionError)


async def test_what_is_away_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await SharedAnswer(Question(AWAY), ttl=LONG, first=0).get()
    assert caplog.records == []


@pytest.mark.parametrize("error", [AWAY, ZeroDivisionError("oops")])
async def test_asyncio_does_not_complain_of_an_error_that_nobody_waited_for(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    answer = SharedAnswer(Question(error), ttl=0.0)
    answer.expect()
    await turns()
    answer.invalidate()
    gc.collect()
    assert "never retrieved" not in caplog.text


# -- patience ------------------------------------------------------------------------------------


async def test_a_late_answer_is_not_waited_for_and_kept_when_it_comes(clock: Clock) -> None:
    question = Question()
    answer = SharedAnswer(question, ttl=1.0, patience=0.02)
    await answer.get()
    clock.now += 1
    question.held = True
    began = asyncio.get_running_loop().time()
    assert await answer.get() == 1
    assert asyncio.get_running_loop().time() - began >= 0.015
    assert answer.under_way
    await question.end(2)
    assert (answer.last, await answer.get(), question.asked) == (2, 2, 2)


async def test_patience_begins_with_the_question_and_not_with_each_caller(clock: Clock) -> None:
    question = Question(held=True)
    answer = SharedAnswer(question, ttl=LONG, patience=30.0, first=0)
    first = ask(answer.get())
    await turns()
    clock.now += 30
    async with soon():
        assert await answer.get() == 0
    assert not first.done()
    assert await ask(answer.get(patience=0.0)) == 0
    longer = ask(answer.get(patience=LONG))
    await turns()
    await question.end(1)
    assert (await first, await longer) == (1, 1)


@pytest.mark.parametrize(("keep", "known"), [(True, False), (False, False), (False, True)])
async def test_where_it_is_late_and_nothing_can_be_given(
    clock: Clock, keep: bool, known: bool
) -> None:
    question = Question()
    answer = SharedAnswer(question, ttl=1.0, keep=keep, patience=0.01)
    if known:
        await answer.get()
        clock.now += 1
    question.held = True
    with pytest.raises(TimeoutError, match="The answer is late"):
        await answer.get()
    await question.end(question.asked)
    assert await answer.get() == question.asked


# -- what has changed ----------------------------------------------------------------------------


async def test_after_a_change_the_next_caller_asks() -> None:
    question = Question()
    answer = SharedAnswer(question, ttl=LONG)
    await answer.get()
    answer.invalidate()
    assert answer.last == 1
    assert [await answer.get() for _ in range(2)] == [2, 2]


async def test_after_a_change_the_last_answer_stays_through_an_error() -> None:
    question = Question()
    answer = SharedAnswer(question, ttl=LONG)
    await answer.get()
    answer.invalidate()
    question.error = AWAY
    assert await answer.get() == 1
    answer.invalidate()  # and a failure is forgotten with it
    question.error = None
    assert await answer.get() == 3


async def test_a_change_while_it_is_asked_has_the_next_caller_ask_at_once() -> None:
    question = Question(held=True)
    answer, before = await changed_meanwhile(question)
    assert not answer.under_way
    after = ask(answer.get())
    await turns()
    assert question.asked == 2
    await question.end(2)
    assert await after == 2
    await question.end(1)  # the older answer comes last
    assert await before == 1  # for those who waited for it
    assert (answer.last, await answer.get(), question.asked) == (2, 2, 2)


async def test_an_answer_from_before_a_change_is_better_than_none_and_never_fresh() -> None:
    question = Question(held=True)
    answer, before = await changed_meanwhile(question)
    await question.end(1)
    assert (await before, answer.last) == (1, 1)
    question.held, question.error = False, AWAY
    assert await answer.get() == 1
    assert question.asked == 2
    answer.invalidate()
    question.error = None
    assert await answer.get(newer_than=answer.asked_at) == 3


@pytest.mark.parametrize("ends", [(2, 1), (1, 2)])
@pytest.mark.parametrize("again", [False, True], ids=["", "and changed again"])
async def test_after_two_changes_an_older_answer_never_takes_the_place_of_a_newer(
    ends: tuple[int, int], again: bool
) -> None:
    question = Question(held=True)
    answer = SharedAnswer(question, ttl=LONG)
    waiting = []
    for _ in range(2):
        waiting.append(ask(answer.get()))
        await turns()
        answer.invalidate()
    await question.end(ends[0])
    if again:
        answer.invalidate()
    await question.end(ends[1])
    assert [await one for one in waiting] == [1, 2]
    assert answer.last == 2
    third = ask(answer.get())
    await turns()
    await question.end(3)
    assert (await third, question.asked) == (3, 3)


async def test_an_error_from_before_a_change_says_nothing() -> None:
    question = Question(held=True)
    answer, before = await changed_meanwhile(question)
    await question.end(1, AWAY)
    with pytest.raises(StoreUnavailable):
        await before
    assert answer.error is None
    question.held = False
    assert await answer.get() == 2


# -- without waiting -----------------------------------------------------------------------------


async def test_it_is_asked_for_beforehand_where_that_is_due(clock: Clock) -> None:
    question = Question(held=True)
    answer = SharedAnswer(question, ttl=10.0, retry=5.0, first=0)
    for _ in range(3):
        answer.expect()
        await turns()
    assert (question.asked, answer.last) == (1, 0)
    await question.end(1)
    answer.expect()
    await turns()
    assert (question.asked, answer.last) == (1, 1)
    question.held, question.error = False, AWAY
    clock.now += 10
    for _ in range(2):
        answer.expect()
        await turns()
    assert question.asked == 2  # it failed, and is left alone for a moment
    clock.now += 5
    answer.expect()
    await turns()
    assert question.asked == 3


async def test_what_came_another_way_counts_as_an_answer(clock: Clock) -> None:
    question = Question(held=True)
    answer = SharedAnswer(question, ttl=10.0)
    answer.put(70)
    assert (await answer.get(), answer.age, question.asked) == (70, 0.0, 0)
    clock.now += 6
    answer.put(60, asked_at=999.0)  # older than what is known
    answer.put(71, asked_at=1004.0)
    assert (answer.last, answer.age) == (71, 2.0)
    clock.now += 8
    waiting = ask(answer.get())
    await turns()
    clock.now += 1
    answer.put(72)
    await question.end(1)
    assert (await waiting, answer.last) == (1, 72)  # the question was sent before


# -- many keys -----------------------------------------------------------------------------------


def many(most: int) -> tuple[SharedAnswers[str, str], list[str]]:
    asked: list[str] = []

    async def question(key: str) -> str:
        asked.append(key)
        await asyncio.sleep(0)
        return f"{key}{len(asked)}"

    return SharedAnswers(question, most=most, ttl=LONG), asked


async def test_each_key_has_a_question_of_its_own() -> None:
    answers, asked = many(9)
    gets = (answers.for_key(key).get() for key in "abab")
    assert await asyncio.gather(*gets) == ["a2", "b2", "a2", "b2"]
    assert (asked, len(answers._answers)) == (["a", "b"], 2)
    assert (answers.last("a"), answers.last("c")) == ("a2", None)


async def test_those_that_were_asked_for_last_are_kept() -> None:
    answers, asked = many(3)
    for key in "abcad":
        await answers.for_key(key).get()
    assert len(answers._answers) == 3
    assert [answers.last(key) is not None for key in "abcd"] == [True, False, True, True]
    asked.clear()
    for key in "acd":
        await answers.for_key(key).get()
    assert asked == []


async def test_a_thousand_keys_cost_no_more_than_the_most() -> None:
    answers, _ = many(10)
    for number in range(1000):
        await answers.for_key(str(number)).get()
        assert len(answers._answers) <= 10
    assert answers.last("999") and not answers.last("989")


async def test_a_question_under_way_is_shared_however_many_keys_there_are() -> None:
    question, made = Question(held=True), Question()
    answers = SharedAnswers[str, int](
        lambda key: question() if key < "d" else made(), most=2, ttl=LONG
    )

    async def get(key: str) -> int:
        return await answers.for_key(key).get()

    waiting = [ask(get(key)) for key in "abc"]
    await turns()
    again = [ask(get(key)) for key in "abc"]
    await turns()
    assert (question.asked, len(answers._answers)) == (3, 3)
    for number in (1, 2, 3):
        await question.end(number)
    assert [await one for one in waiting + again] == [1, 2, 3] * 2
    await answers.for_key("d").get()
    assert len(answers._answers) == 2


async def test_what_is_forgotten_is_known_no_more_and_asked_anew() -> None:
    question = Question(held=True)
    answers = SharedAnswers[str, int](lambda _: question(), ttl=LONG)
    before = ask(answers.for_key("12").get())
    await turns()
    answers.forget("12")
    answers.forget("nobody knows it")
    after = ask(answers.for_key("12").get())
    await turns()
    await question.end(2)
    await question.end(1)
    assert (await before, await after, answers.last("12")) == (1, 2, 2)
    question.held = False
    for forget in (lambda: answers.forget("12"), answers.clear):
        forget()
        assert (answers.last("12"), len(answers._answers)) == (None, 0)
        await answers.for_key("12").get()
    question.error = AWAY
    answers.forget("12")
    with pytest.raises(StoreUnavailable):  # nor is it given instead of an error
        await answers.for_key("12").get()


async def test_the_question_about_a_key_may_be_the_callers() -> None:
    answers = SharedAnswers[str, int](ttl=LONG)
    assert await answers.for_key("a").get(Question()) == 1


MADE: list[Callable[[], Any]] = [
    lambda: SharedAnswer(Question(), ttl=LONG),
    lambda: SharedAnswers[int, int](lambda _: Question()(), ttl=LONG).for_key(1),
]


@pytest.mark.parametrize("make", MADE, ids=["alone", "of a key"])
def test_it_can_be_made_before_there_is_a_loop(make: Callable[[], Any]) -> None:
    answer = make()
    assert asyncio.run(answer.get()) == 1
