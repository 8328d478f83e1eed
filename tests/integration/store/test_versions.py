"""Versions of environments, and what tests know, on both databases."""

from __future__ import annotations

import asyncio

import pytest

from portal.errors import NotFound
from portal.models.catalog.catalog import Origin, Verdict
from portal.models.catalog.environment import Environment, EnvironmentState
from portal.store import Store


def environment(name: str = "one", title: str = "One") -> Environment:
    return Environment(name=name, title=title, kind="venv", path="/opt/one")


async def add(store: Store, name: str = "one", **values: object) -> int:
    made = await store.versions.add_version(
        environment(name), author="grace", at=1, origin=Origin.PAGE, **values
    )
    return made.number


async def test_numbers_count_for_each_name(store: Store) -> None:
    assert [await add(store), await add(store), await add(store, "two")] == [1, 2, 1]
    newest = await store.versions.newest()
    assert {name: one.number for name, one in newest.items()} == {"one": 2, "two": 1}
    many = await asyncio.gather(*(add(store) for _ in range(8)), return_exceptions=True)
    numbers = [one for one in many if isinstance(one, int)]
    assert len(set(numbers)) == len(numbers)


async def test_published_is_what_was_published_last(store: Store) -> None:
    for at in (30.0, 10.0, 30.0, None):
        await add(store, published_at=at)
    await add(store, "two")
    published = await store.versions.published()
    assert {name: one.number for name, one in published.items()} == {"one": 3}
    await store.versions.change("one", 2, published_at=31)
    assert (await store.versions.published())["one"].number == 2


async def test_the_newest_with_these_bytes(store: Store) -> None:
    for mark in ("a", "b", "a"):
        await add(store, file_hash=mark)
    found = await store.versions.with_hash("one", "a")
    assert found is not None
    assert found.number == 3
    assert await store.versions.with_hash("two", "a") is None


async def test_what_came_to_nothing_is_forgotten(store: Store) -> None:
    await add(store)
    await add(store)
    await store.versions.remove("one", 2)
    with pytest.raises(NotFound):
        await store.versions.get("one", 2)
    assert (await store.versions.get("one", 1)).state is EnvironmentState.DRAFT


async def test_software_of_all_tests_of_an_environment(store: Store) -> None:
    for gpu_type, versions in (
        ("", {"python": "3.12", "torch": "2.9", "cuda": "12.4"}),
        ("v100", {"driver": "570.1", "cuda": "12.8"}),
    ):
        facts = {"versions": versions, "packages": ["a==1"] * 1000}
        await store.tests.save_verdict(
            Verdict(fingerprint="f", gpu_type=gpu_type, passed=True, message="", at=1, facts=facts)
        )
    await store.tests.save_verdict(
        Verdict(fingerprint="g", gpu_type="", passed=False, message="x", at=1)
    )
    assert await store.tests.software() == {
        "f": {"python": "3.12", "torch": "2.9", "cuda": "12.4", "driver": "570.1"},
        "g": {},
    }
    of = await store.tests.verdicts_of("f")
    assert set(of) == {"", "v100"}
    assert of["v100"].facts["versions"]["driver"] == "570.1"
    assert await store.tests.verdicts_of("none") == {}
