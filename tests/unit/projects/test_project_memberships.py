"""Spaces of a person, with a real database: in few queries, however many they are in."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from stored_courses import a_course
from stored_courses import stored as stored_course
from test_project_launch import stored

from portal.errors import NotFound
from portal.models.course.course import CourseMember
from portal.models.space import Role
from portal.projects.models import ProjectMember, StoredProject
from portal.projects.tables import ProjectTable
from portal.spaces.membership_cache import MembershipCache
from portal.store import Store

NAMES = [f"p{number}" for number in range(30)]


def named(name: str) -> StoredProject:
    project = stored().project.model_copy(update={"name": name})
    return stored().model_copy(update={"project": project})


async def test_many_spaces_are_read_at_once(store: Store) -> None:
    table, asked = store.table(ProjectTable), []
    for name in NAMES:
        await table.add_space(
            named(name), [ProjectMember(project=name, person="ada", role=Role.MEMBER)]
        )
    await store.courses.add_space(
        stored_course(a_course("deep")),
        [CourseMember(course="deep", person="ada", role=Role.STUDENT)],
    )

    async def one(name: str) -> Any:
        asked.append(name)
        return await store.spaces.get(name)

    async def many(names: Collection[str]) -> Any:
        asked.append(sorted(names))
        return await store.spaces.named(names)

    cache = MembershipCache(one, store.spaces.of_person, many)
    mine = await cache.mine("ada")
    assert asked == [sorted([*NAMES, "deep"])]
    assert {name: found.stored.name for name, found in mine.items()} == {
        name: name for name in [*NAMES, "deep"]
    }
    assert (await cache.space("p7")).name == "p7"
    assert len(await cache.of_type("project").mine("ada")) == len(NAMES)
    assert len(asked) == 1  # kept
    assert await store.spaces.named([]) == []


async def test_a_space_that_is_gone_is_said(store: Store) -> None:
    await store.table(ProjectTable).members.put(
        [ProjectMember(project=name, person="ada", role=Role.MEMBER) for name in ("p1", "p2")]
    )
    cache = MembershipCache(store.spaces.get, store.spaces.of_person, store.spaces.named)
    with pytest.raises(NotFound):
        await cache.mine("ada")
