"""What everybody likes and used last, as the launch page knows it, and the tiles that it shows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from session_records import recorded

from portal.catalog.offers.gpu_offers import any_gpu, gpu_offers
from portal.catalog.offers.preferences import NO_PREFERENCES
from portal.catalog.offers.tile import Tiles, tile_of, version_rows
from portal.errors import StoreUnavailable
from portal.models.catalog.catalog import Measurement, Verdict
from portal.models.catalog.environment import Environment, OfferedEnvironment
from portal.store import Store
from spawners.form import favourites
from spawners.form.favourites import Favourites

TORCH = Environment(name="torch", title="PyTorch", kind="venv", path="/opt/torch")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    made = Store(url=f"sqlite:///{tmp_path}/portal.sqlite", log=logging.getLogger("store"))
    await made.upgrade()
    yield made
    await made.close()


async def test_ones_own_favourites_and_sessions(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (user, name) in enumerate(
        [("ada", "torch"), ("ada", "torch"), ("ada", "plain"), ("barbara", "other")]
    ):
        record = recorded(id=f"s{number}", user=user, environment=name, submitted_at=number)
        await store.sessions.save(record)
    await store.favourites.set("ada", "plain", 5)
    known = Favourites(store)
    monkeypatch.setattr(favourites, "_PATIENCE", 60)
    monkeypatch.setattr(favourites, "_AGE", 600)
    preferences = await known.preferences_of("ada")
    assert preferences.liked == {"plain"}
    assert preferences.used == {"torch": 1.0, "plain": 2.0}
    assert await known.preferences_of("student01") == NO_PREFERENCES
    # It is kept for a while, and then asked for again.
    await store.favourites.remove("ada", "plain")
    assert (await known.preferences_of("ada")).liked == {"plain"}
    monkeypatch.setattr(favourites, "_AGE", 0.0)
    assert (await known.preferences_of("ada")).liked == frozenset()


class Slow:
    """A database that answers when it is told to, or not at all."""

    def __init__(self) -> None:
        self.answers, self.asked, self.error = asyncio.Event(), 0, False
        self.favourites = self.sessions = self

    async def of_user(self, user: str) -> list[str]:
        self.asked += 1
        await self.answers.wait()
        if self.error:
            raise StoreUnavailable("away")
        return ["torch"]

    async def last_used(self, user: str) -> dict[str, float]:
        return {}


async def test_a_page_does_not_wait_for_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(favourites, "_PATIENCE", 0.01)
    slow: Any = Slow()
    known = Favourites(slow)
    assert [await known.preferences_of("ada") for _ in range(3)] == [NO_PREFERENCES] * 3
    assert slow.asked == 1  # those who wait share the question
    slow.answers.set()
    while not (await known.preferences_of("ada")).liked:
        await asyncio.sleep(0)
    # What was known stays while the database is away.
    monkeypatch.setattr(favourites, "_AGE", 0.0)
    slow.error = True
    assert (await known.preferences_of("ada")).liked == {"torch"}


async def test_tiles_are_made_again_only_when_something_is_new(store: Store) -> None:
    def verdict(passed: bool, at: float, version: str) -> Verdict:
        facts = {"versions": {"torch": version}}
        return Verdict(
            fingerprint=TORCH.fingerprint,
            gpu_type="",
            passed=passed,
            message="",
            at=at,
            facts=facts,
        )

    async def look() -> None:
        offering.verdicts = await store.tests.outcomes()
        await tiles.refresh()

    offering: Any = SimpleNamespace(
        verdicts=None, tested=lambda one: offering.verdicts.get(one.fingerprint, {})
    )
    catalog: Any = SimpleNamespace(
        offering=offering, previews=frozenset(), environments={"torch": TORCH}
    )
    tiles = Tiles(catalog, store, patience=5)
    await look()
    assert tiles.tile_for(TORCH).tested == ""
    await store.tests.save_verdict(verdict(True, 1.7e9, "2.9"))
    await look()
    tile = tiles.tile_for(TORCH)
    assert tile.versions == ("PyTorch 2.9",)
    assert tile.tested_at == 1.7e9
    assert "pytorch 2.9" in tile.search
    await look()
    assert tiles.tile_for(TORCH) is tile
    await store.tests.save_verdict(verdict(False, 1.8e9, "2.9"))
    await look()
    assert tiles.tile_for(TORCH).tested == "last test failed"
    changed = TORCH.model_copy(update={"title": "Torch"})
    assert tiles.tile_for(changed).title == "Torch"


def test_versions_in_an_order_that_people_read() -> None:
    versions = {"zlib": "1.3", "cuda": "13.0", "python": "3.12", "torch": "2.9", "cudnn": "9.14"}
    titles = [title for title, _ in version_rows(versions)]
    assert titles == ["PyTorch", "Python", "CUDA", "cuDNN", "zlib"]
    assert tile_of(TORCH, versions).versions == ("PyTorch 2.9", "Python 3.12", "CUDA 13.0")


async def test_the_best_of_each_gpu_type(store: Store) -> None:
    usual = {
        "version": None,
        "benchmark": "resnet50",
        "gpus": 1,
        "precision": "fp16",
        "person": "ada",
        "session_id": "s",
        "at": 1.0,
    }
    for name, gpu_type, value, simulated in (
        ("torch", "v100", 100.0, False),
        ("torch", "v100", 900.0, True),
        ("torch", "t4", 50.0, True),
        ("torch", "t4", 60.0, True),
        ("plain", "", 5.0, False),
    ):
        await store.measurements.add_measurement(
            Measurement(
                environment=name,
                gpu_type=gpu_type,
                images_per_second=value,
                simulated=simulated,
                **usual,
            )
        )
    # What is real counts more than what is simulated, be that as fast as it may.
    assert await store.measurements.best() == {
        "torch": {"v100": (100.0, False), "t4": (60.0, True)},
        "plain": {"": (5.0, False)},
    }


def test_gpu_types_that_are_offered_and_why_others_are_not() -> None:
    narrowed = OfferedEnvironment(
        **TORCH.model_dump() | {"gpu_types": ("v100",)}, refusals={"t4": "It failed there."}
    )
    rows = gpu_offers(narrowed, {}, {"v100": (9.0, True), "": (1.0, False)})
    assert [(one.type, one.offered, one.reason) for one in rows] == [
        ("v100", True, ""),
        ("t4", False, "It failed there."),
    ]
    assert (rows[0].images_per_second, rows[0].simulated) == (9.0, True)
    assert not any_gpu(narrowed)
    assert any_gpu(TORCH)
    without = TORCH.model_copy(update={"max_gpus": 0})
    assert not any_gpu(without)
    assert not gpu_offers(without, {}, {"v100": (9.0, False)})[0].offered
