"""Searches of one user that ask for hundreds of points at once: another user's search is chosen for
after a turn or two, not after all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from portal.models.session.run import Run
from portal.models.session.search import Search
from portal.store import Store
from portal.work.run.results import searches
from portal.work.run.results.searches import RunSearches
from portal.work.run.results.turns import Turns
from portal.work.run.tables.searches import RunSearchTable

MANY = 60


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = Store(url=f"sqlite:///{tmp_path}/portal.sqlite", log=logging.getLogger("store"))
    await store.upgrade()
    yield store
    await store.close()


def a_search(parameters: int) -> Search:
    ranges = [{"name": f"p{n}", "kind": "float", "low": 0, "high": 1} for n in range(parameters)]
    return Search.model_validate({"parameters": ranges, "metric": "loss", "direction": "minimize"})


def a_run(user: str) -> Run:
    return Run(
        id="5e2f3c1a",
        name="search",
        source="train.py",
        folder="/home/x/runs/search",
        points=1000,
        user=user,
        server="run-5e2f3c1a",
        environment="lab",
        created_at=1.0,
    )


async def test_one_user_s_requests_are_one_turn(store: Store) -> None:
    mallory, ada = a_run("mallory"), a_run("ada")
    await store.table(RunSearchTable).add_search(("mallory", mallory.id), a_search(50))
    await store.table(RunSearchTable).add_search(("ada", ada.id), a_search(2))
    table = RunSearches(store)
    await table.ask(mallory, 999)  # Optuna is loaded
    theirs = [asyncio.create_task(table.ask(mallory, number)) for number in range(MANY)]
    while not any(task.done() for task in theirs):
        await asyncio.sleep(0.001)
    for number in range(3):
        before = sum(task.done() for task in theirs)
        assert set(await table.ask(ada, number)) == {"p0", "p1"}
        assert sum(task.done() for task in theirs) - before <= 4, "she waits a turn or two"
    assert not all(task.done() for task in theirs), "the attack goes on"
    answers = await asyncio.gather(*theirs)
    assert len({answer["p0"] for answer in answers}) == MANY, "each saw those before"


async def test_a_point_that_asks_again_is_chosen_for_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a client does that has given up; else its requests would pile up."""
    chosen: list[int] = []
    choose = searches.choose

    def counted(search: Search, trials: object, number: int) -> dict[str, float]:
        chosen.append(number)
        return choose(search, trials, number)  # type: ignore[arg-type]

    monkeypatch.setattr(searches, "choose", counted)
    run = a_run("mallory")
    await store.table(RunSearchTable).add_search(("mallory", run.id), a_search(2))
    table = RunSearches(store)
    first = asyncio.create_task(table.ask(run, 7))
    await asyncio.sleep(0)
    again = [asyncio.create_task(table.ask(run, 7)) for _ in range(50)]
    first.cancel()
    answers = await asyncio.gather(*again)
    assert chosen == [7] and all(answer == answers[0] for answer in answers)
    assert not table._choosing


async def test_turns() -> None:
    turns, served = Turns(1), list[str]()
    free = asyncio.Event()

    async def take(user: str) -> None:
        async with turns.turn(user):
            served.append(user)
            await free.wait()

    tasks = [asyncio.create_task(take(user)) for user in "aaaabbc"]
    await asyncio.sleep(0)
    tasks[2].cancel()  # one that waits
    await asyncio.sleep(0)
    free.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert "".join(served) == "abcaba"
    assert not turns._waiting and not turns._served
