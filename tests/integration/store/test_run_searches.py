"""Searches of runs, and what was chosen for their points."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import update

from portal.errors import Conflict
from portal.models.session.run import Run
from portal.models.session.search import Search
from portal.store import Store
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.searches import RunSearchTable, run_searches

KEY, OTHER = ("ada", "5e2f3c1a"), ("barbara", "5e2f3c1a")
SEARCH = Search.model_validate(
    {
        "parameters": [
            {"name": "lr", "kind": "float", "low": 1e-300, "high": 1e300, "log": True},
            {"name": "opt", "kind": "choice", "choices": ["adam", 1, True, None, 0.5]},
        ],
        "metric": "loss",
        "direction": "minimize",
        "seed": 2**63 - 1,
    }
)


async def test_what_is_chosen_stays(store: Store) -> None:
    table = store.table(RunSearchTable)
    await table.add_search(KEY, SEARCH)
    await table.add_search(OTHER, SEARCH)
    with pytest.raises(Conflict, match="already have a run with the id '5e2f3c1a'"):
        await table.add_search(KEY, SEARCH)
    assert await table.get(KEY) == SEARCH
    assert await table.get(("ada", "ffffffff")) is None
    chosen = {"lr": 1.2345678901234567e-05, "opt": 2}
    assert await table.trial(KEY, 3) is None
    assert await table.choose(KEY, 3, chosen) == chosen
    assert await table.choose(KEY, 3, {"lr": 1.0, "opt": 0}) == chosen, "the first one"
    await table.choose(KEY, 1, {"lr": 0.5, "opt": 0})
    assert await table.trials(KEY) == {1: {"lr": 0.5, "opt": 0}, 3: chosen}
    assert await table.trials(OTHER) == {}
    await table.remove(KEY)
    assert await table.get(KEY) is None and await table.trials(KEY) == {}
    assert await table.get(OTHER) == SEARCH


async def test_a_repetition_has_the_same(store: Store) -> None:
    table, new = store.table(RunSearchTable), ("barbara", "6e2f3c1a")
    await table.copy(KEY, new)
    assert await table.get(new) is None, "without a search there is none to copy"
    await table.add_search(KEY, SEARCH)
    await table.choose(KEY, 2, {"lr": 0.5, "opt": 0})
    for _ in range(2):
        await table.copy(KEY, new)
        assert await table.get(new) == SEARCH
        assert await table.trials(new) == {2: {"lr": 0.5, "opt": 0}}


async def test_those_of_deleted_runs_are_pruned(store: Store) -> None:
    run = Run(
        id=KEY[1], user=KEY[0], name="rates", source="a.py", folder="/a", points=3, server="run-a",
        environment="lab", created_at=100.0,
    )  # fmt: skip
    await store.table(RunTable).add_run(run)
    table = store.table(RunSearchTable)
    for key in (KEY, OTHER, ("carol", "5e2f3c1a")):
        await table.add_search(key, SEARCH)
        await table.choose(key, 0, {"lr": 1.0})
    old = update(run_searches).where(run_searches.c.user != "carol")
    await table._write(old.values(created_at=time.time() - 100_000))
    await table.prune()
    assert await table.get(KEY) == SEARCH and len(await table.trials(KEY)) == 1
    assert await table.get(OTHER) is None and await table.trials(OTHER) == {}
    assert await table.get(("carol", "5e2f3c1a")) == SEARCH, "its run may be added next"
