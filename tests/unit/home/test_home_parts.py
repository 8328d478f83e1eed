"""Parts of Home: none holds up the others, and a visit lasts until half an hour without a look."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import select

from portal.errors import StoreUnavailable
from portal.home import visits
from portal.home.showing import ShownPart, shown_parts
from portal.home.visits import last_visit
from portal.home.words import resources_words
from portal.models.home import HomePart, Place
from portal.store import Store
from portal.store.site.visits import visits as table

LOG = logging.getLogger("home")
HOUR, DAY = 3600.0, 86_400.0


def part(name: str, load: Any, place: Place = Place.NOW) -> HomePart:
    return HomePart(name, name.title(), place, "none.html", load)


async def there() -> Mapping[str, Any]:
    return {"x": 1}


async def nothing() -> None:
    return None


async def slow() -> Mapping[str, Any]:
    await asyncio.sleep(3600)
    return {}


async def away() -> Mapping[str, Any]:
    raise StoreUnavailable("The database does not answer.")


async def broken() -> Mapping[str, Any]:
    raise ZeroDivisionError


async def test_each_part_fails_and_waits_alone(caplog: pytest.LogCaptureFixture) -> None:
    loads = {"there": there, "nothing": nothing, "slow": slow, "away": away, "broken": broken}
    parts = [part(name, load) for name, load in loads.items()]
    shown = {entry.part.name: entry for entry in await shown_parts(parts, LOG, patience=0.01)}
    assert shown.keys() == loads.keys() - {"nothing"}
    assert shown["there"].content == {"x": 1}
    assert (shown["slow"].content, shown["slow"].problem) == (None, "")
    assert shown["away"].problem == "The database does not answer."
    assert shown["broken"].problem == "This part could not be loaded."
    assert "'broken'" in caplog.text
    (late,) = await shown_parts([part("slow", slow)], LOG, patience=0.01, late="Not now.")
    assert late.problem == "Not now."


async def test_parts_stand_in_the_order_of_their_places() -> None:
    parts = [part("last", there, Place.SITE), part("b", there), part("a", there, Place.TODAY)]
    shown = await shown_parts([*parts, part("c", there)], LOG, patience=1)
    assert [entry.part.name for entry in shown] == ["a", "b", "c", "last"]
    assert [entry.aside for entry in shown] == [False, False, False, True]
    assert ShownPart(part("next", there, Place.NEXT)).aside


async def test_a_visit_ends_half_an_hour_after_the_last_look(store: Store) -> None:
    now = 1_800_000_000.0

    async def look(later: float, user: str = "ada") -> float:
        nonlocal now
        now += later
        return await last_visit(store, user, lambda: now)

    began = now
    assert await look(0) == began - DAY  # the first one looks back a day
    assert await look(60) == began - DAY  # still the same visit
    assert await look(1500) == began - DAY
    left = now
    assert await look(2 * HOUR) == left
    assert await look(600) == left
    assert await look(40 * DAY) == now - 30 * DAY  # not further
    assert await look(0, "barbara") == now - DAY
    rows = await store.visits._rows_of(select(table))
    assert sorted(row.user for row in rows) == ["ada", "barbara"]


async def test_looks_are_written_now_and_then(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[float] = []
    save = store.visits.set

    async def note(user: str, seen: Any) -> None:
        written.append(seen.seen_at)
        await save(user, seen)

    monkeypatch.setattr(store.visits, "set", note)
    for at in (1e9, 1e9 + 60, 1e9 + 200, 1e9 + 400, 1e9 + 500):
        await last_visit(store, "ada", lambda at=at: at)  # type: ignore[misc]
    assert written == [1e9, 1e9 + 400]


async def test_a_full_disk_hides_no_visit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(user: str, seen: Any) -> None:
        raise StoreUnavailable("The disk is full.")

    monkeypatch.setattr(store.visits, "set", full)
    assert await last_visit(store, "ada", lambda: 1e9) == 1e9 - visits._FIRST


def test_resources() -> None:
    options = {"gpus": 2, "gpu_type": "v100", "cpus": 1, "memory": "32G", "time": "2:30:00"}
    assert (
        resources_words(options, {"v100": "V100"})
        == "2 \N{MULTIPLICATION SIGN} V100, 1 CPU, 32G, 2 h 30 min"
    )
    assert resources_words({"gpus": 1, "time": "for ever"}, {}) == "1 \N{MULTIPLICATION SIGN} GPU"
    assert resources_words({}, {}) == ""
