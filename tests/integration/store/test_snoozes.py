"""Snoozes, as they are remembered over a restart of the service."""

from __future__ import annotations

import pytest

from portal.errors import InvalidRequest
from portal.store import Store
from portal.store.sessions.snoozes import Snooze


async def test_the_last_one_counts(store: Store) -> None:
    table = store.snoozes
    await table.set("A", Snooze(100.5, 1))
    await table.set("B", Snooze(50.0, 1))
    await table.set("A", Snooze(200.5, 2))
    assert await table.of_sessions(["A", "B", "C"]) == {"A": (200.5, 2), "B": (50.0, 1)}
    assert await table.of_sessions([]) == {}


@pytest.mark.parametrize("until", [-1.0, float("nan"), 1e300])
async def test_what_is_no_time_is_refused(store: Store, until: float) -> None:
    with pytest.raises(InvalidRequest):
        await store.snoozes.set("A", Snooze(until, 1))
