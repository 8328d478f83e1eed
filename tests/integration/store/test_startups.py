"""How long starts took, as they are remembered."""

from __future__ import annotations

import asyncio

from portal.store import Store


async def test_what_is_told_later_is_put_beside_it(store: Store) -> None:
    table = store.startups
    await table.add_steps("A", {"container": 1.0, "imports": 2.0}, 10.0)
    await table.add_steps("A", {"page": 3.0}, 20.0, {"page"})
    await table.add_steps("A", {"page": 0.5, "imports": 2.5}, 30.0, {"page"})
    await table.add_steps("B", {"page": 1.0}, 30.0, {"page"})
    assert await table.of_sessions(["A", "B", "C"]) == {
        "A": {"container": 1.0, "imports": 2.5, "page": 3.0},
        "B": {"page": 1.0},
    }
    assert await table.of_sessions([]) == {}


async def test_two_at_once_lose_nothing(store: Store) -> None:
    names = [f"step{number}" for number in range(8)]
    await asyncio.gather(*(store.startups.add_steps("A", {name: 1.0}, 1.0) for name in names))
    assert set((await store.startups.of_sessions(["A"]))["A"]) == set(names)
