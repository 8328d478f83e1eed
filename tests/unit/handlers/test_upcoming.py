"""Environments that are not offered yet: who sees them, and how far they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from portal.catalog.offers.upcoming import Upcoming, upcoming
from portal.models.catalog.catalog import Origin
from portal.models.catalog.environment import Environment, EnvironmentState
from portal.models.catalog.image_job import WorkState
from portal.models.person import Person
from portal.store import Store

ADA = Person(name="ada", groups=("physics",))


def catalog(*, show: bool = True, offered: tuple[str, ...] = ()) -> Any:
    def sees(person: Person, environment: Environment) -> bool:
        return not environment.groups or bool(set(environment.groups) & set(person.groups))

    return SimpleNamespace(show_upcoming=show, environments=dict.fromkeys(offered), sees=sees)


async def building(store: Store, step: str = "", share: float | None = None, **more: Any) -> None:
    values = {"name": "torch", "title": "Torch", "kind": "container", "source": "/a.sif"}
    environment = Environment.model_validate(values | more)
    version = await store.versions.add_version(
        environment, author="grace", at=1.0, origin=Origin.PAGE
    )
    build = await store.builds.add_build(
        key=environment.name, source="/a.sif", digest="", asker="grace", nonce="", log="", at=1.0
    )
    await store.builds.change(build.id, step=step, share=share, state=WorkState.RUNNING)
    await store.versions.change(
        version.name, version.number, state=EnvironmentState.BUILDING, build_id=build.id
    )


async def seen(store: Store, *, curates: bool = False, **more: Any) -> list[Upcoming]:
    return await upcoming(catalog(**more), store, ADA, curates=curates)


async def test_others_see_it_only_where_the_site_says_so(store: Store) -> None:
    await building(store)
    assert await seen(store, show=False) == []
    assert [entry.title for entry in await seen(store, show=False, curates=True)] == ["Torch"]
    assert [entry.title for entry in await seen(store)] == ["Torch"]


async def test_what_is_for_other_groups_or_private_is_not_seen(store: Store) -> None:
    await building(store, name="physics", groups=["physics"])
    await building(store, name="biology", groups=["biology"])
    await building(store, name="own", private=True, owner="ada")
    assert [entry.name for entry in await seen(store)] == ["physics"]


async def test_new_versions_of_what_is_offered_are_no_news(store: Store) -> None:
    await building(store)
    assert await seen(store, offered=("torch",)) == []


@pytest.mark.parametrize(
    ("step", "share", "words", "least", "most"),
    [
        ("", None, "waiting for a node", 0, 0),
        ("queue", None, "waiting for a node", 0, 0),
        ("pull", 0.5, "fetching the image", 0.25, 0.3),
        ("write", None, "writing the image file", 0.5, 0.6),
        ("done", None, "testing", 0.85, 0.95),
        ("unheard-of", None, "preparing", 0.1, 0.12),
    ],
)
async def test_its_step_and_share_are_told(
    store: Store, step: str, share: float | None, words: str, least: float, most: float
) -> None:
    await building(store, step, share)
    (entry,) = await seen(store)
    assert entry.step == words
    assert least <= entry.share <= most


async def test_a_draft_is_nobody_s_news_and_a_test_is(store: Store) -> None:
    await building(store)
    await store.versions.change("torch", 1, state=EnvironmentState.DRAFT)
    assert await seen(store) == []
    await store.versions.change("torch", 1, state=EnvironmentState.TESTING)
    assert [entry.step for entry in await seen(store)] == ["testing"]
