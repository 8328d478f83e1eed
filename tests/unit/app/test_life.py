"""What lives beside the requests: it goes on after a failure, and ends when it is told to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from portal.app import background_tasks
from portal.app.background_tasks import BackgroundTasks
from portal.errors import StoreUnavailable


class Store:
    """Is away for the first ``away`` questions, which it answers with ``error``."""

    def __init__(self, away: int, error: Exception) -> None:
        self.away, self.failure = away, error
        self.asked = self.checked = 0
        self.closed = False

    async def upgrade(self) -> None:
        self.asked += 1
        if self.asked <= self.away:
            raise self.failure

    async def keep_room(self) -> None:
        pass

    async def check(self) -> None:
        self.checked += 1

    async def close(self) -> None:
        self.closed = True


class Cluster:
    closed = False

    def close(self) -> None:
        self.closed = True


def made(store: Store, run: Callable[[], Awaitable[None]]) -> BackgroundTasks:
    parts: Any = SimpleNamespace(
        log=logging.getLogger("portal-test"),
        store=store,
        cluster=Cluster(),
        dashboard=SimpleNamespace(run=run, view=None),
        idle=SimpleNamespace(run=asyncio.Event().wait),
        notices=SimpleNamespace(run=lambda view: asyncio.Event().wait()),
        build_scheduler=SimpleNamespace(run=asyncio.Event().wait),
        curator=SimpleNamespace(run=asyncio.Event().wait),
        of_features={
            "run": SimpleNamespace(tasks={"run follower": asyncio.Event().wait}),
            "": None,
        },
        course_work=SimpleNamespace(run=asyncio.Event().wait),
    )
    return BackgroundTasks(parts, {})


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "_RETRY", (0.01, 0.02))
    monkeypatch.setattr(background_tasks, "_CHECK", 0.01)


async def until(check: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not check():
            await asyncio.sleep(0.005)


async def lives_until(tasks: BackgroundTasks, check: Callable[[], Any]) -> None:
    tasks.start()
    await until(check)
    await tasks.close()


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_dashboard_that_fails_or_ends_is_started_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    starts: list[int] = []

    async def run() -> None:
        starts.append(1)
        if len(starts) == 1:
            raise RuntimeError("a bug")
        if len(starts) > 2:
            await forever()

    await lives_until(made(Store(0, ValueError()), run), lambda: len(starts) == 3)
    assert "The dashboard failed; restarting it" in caplog.text
    assert "a bug" in caplog.text
    assert "The dashboard exited unexpectedly" in caplog.text


async def test_a_database_that_is_away_is_asked_again_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Store(5, StoreUnavailable("The database is away."))
    await lives_until(made(store, forever), lambda: store.checked > 2)
    assert store.asked == 6
    assert caplog.text.count("The database is not ready: The database is away.") == 1
    assert "The database is ready." in caplog.text


async def test_a_failure_that_nobody_thought_of_is_no_end_either(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Store(2, RuntimeError("unthought of"))
    await lives_until(made(store, forever), lambda: store.checked)
    assert "unthought of" in caplog.text


async def test_everything_is_closed_at_the_end() -> None:
    ended = []

    async def run() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0.01)
            ended.append(1)

    store = Store(0, ValueError())
    tasks = made(store, run)
    await lives_until(tasks, lambda: store.asked)
    assert ended
    assert store.closed
    assert tasks.parts.cluster.closed  # type: ignore[attr-defined]
