"""The loop of periodic work: when it runs, what ends its pause, and what it says of failures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from portal import periodic
from portal.errors import StoreUnavailable
from portal.periodic import Periodic

LOG = logging.getLogger("portal-test")


class Clock:
    """Pauses that last no time, in place of asyncio's; ``most`` ends the loop."""

    def __init__(self, most: int) -> None:
        self.pauses: list[float] = []
        self.most = most

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if len(self.pauses) == self.most:
            raise asyncio.CancelledError


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a loop with these results (errors are raised) until they are used up; return its
    pauses."""

    async def run(results: list[object], pause: Any = 5.0, **more: Any) -> list[float]:
        clock, rest = Clock(len(results) + bool(more.get("later"))), list(results)
        monkeypatch.setattr(asyncio, "sleep", clock.sleep)

        async def work() -> object:
            result = rest.pop(0)
            if isinstance(result, Exception):
                raise result
            return result

        with pytest.raises(asyncio.CancelledError):
            await Periodic("The work", work, pause, LOG, **more).run()
        monkeypatch.undo()
        assert not rest
        return clock.pauses

    return run


def away() -> StoreUnavailable:
    return StoreUnavailable("The database is away.")


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


async def test_it_runs_at_once_and_after_each_pause(run: Any) -> None:
    assert await run([1, 2, 3]) == [5.0, 5.0, 5.0]


async def test_it_begins_with_a_pause(run: Any) -> None:
    assert await run([1, 2], later=True) == [5.0, 5.0, 5.0]


async def test_the_pause_follows_from_the_last_result(run: Any) -> None:
    seen: list[object] = []

    def pause(result: object) -> float:
        seen.append(result)
        return 1.0 if result == "busy" else 9.0

    error = away()
    assert await run(["busy", error, "idle"], pause, later=True) == [9.0, 1.0, 9.0, 9.0]
    assert seen == [None, "busy", error, "idle"]


async def test_an_outage_and_its_end_are_logged_once(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await run([away(), away(), away(), 1, 1, away(), 1])
    outage = [
        ("WARNING", "The work failed; retrying: The database is away."),
        ("WARNING", "The work continues."),
    ]
    assert lines(caplog) == 2 * outage


async def test_another_failure_is_logged_too(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    await run([away(), StoreUnavailable("Its disk is full."), away(), 1])
    assert [text for _, text in lines(caplog)] == [
        "The work failed; retrying: The database is away.",
        "The work failed; retrying: Its disk is full.",
        "The work failed; retrying: The database is away.",
        "The work continues.",
    ]


async def test_a_bug_ends_nothing_and_is_logged_with_its_traceback(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await run([RuntimeError("a bug"), RuntimeError("a bug"), 1], level=logging.DEBUG)
    assert lines(caplog) == [
        ("ERROR", "The work failed; retrying"),
        ("WARNING", "The work continues."),
    ]
    assert "RuntimeError: a bug" in caplog.text


async def test_a_loop_has_its_own_words_level_and_expected_errors(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    words = {"failed": "It is not ready", "again": "It is ready."}
    await run([OSError("away"), 1], **words, level=logging.DEBUG, expected=OSError)
    assert lines(caplog) == [("DEBUG", "It is not ready: away"), ("DEBUG", "It is ready.")]
    caplog.clear()
    await run([away(), 1], **words, level=logging.ERROR)
    assert [level for level, _ in lines(caplog)] == ["ERROR", "WARNING"]


async def started(wake: asyncio.Event, work: Callable[[], Any], **more: Any) -> Periodic:
    loop = Periodic("The work", work, 3600.0, LOG, wake=wake, **more)
    loop.start()
    loop.start()  # does nothing
    await asyncio.sleep(0.01)
    return loop


async def test_a_wake_up_ends_the_pause_and_is_not_lost_during_a_run() -> None:
    wake, runs = asyncio.Event(), 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 2:
            wake.set()  # as by someone else, during the run

    loop = await started(wake, work)
    assert runs == 1
    wake.set()
    await asyncio.sleep(0.05)
    await loop.stop()
    assert runs == 3


async def test_wake_ups_in_a_row_are_one_run() -> None:
    wake, runs = asyncio.Event(), 0

    async def work() -> None:
        nonlocal runs
        runs += 1

    loop = await started(wake, work, gather=0.1)
    for _ in range(5):
        wake.set()
        await asyncio.sleep(0.005)
    assert runs == 1
    await asyncio.sleep(0.3)
    await loop.stop()
    assert runs == 2


async def test_a_stop_cancels_the_run_and_waits_for_its_end() -> None:
    ended = False

    async def work() -> None:
        nonlocal ended
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended = True

    loop = await started(asyncio.Event(), work)
    assert not ended
    await loop.stop()
    assert ended
    await loop.stop()  # does nothing


async def test_a_lost_cancellation_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """As asyncio.wait_for loses one that comes with the result it waited for."""
    monkeypatch.setattr(periodic, "_AGAIN", 0.05)
    lost = 0

    async def work() -> None:
        nonlocal lost
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            lost += 1
            if lost > 1:
                raise

    loop = Periodic("The loop", work, 0.0, LOG)
    loop.start()
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await loop.stop()
    assert lost == 2
