"""Courses that are called like a group to which the site has given a role of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import orm

from portal.models.course import group_of
from spawners import course_groups, roles

NAMES = ["dl101", "operators", "a", "x-1", "portal-admins", "course-dl101"]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A Hub with its database, where the group of the course "dl101" has no role."""
    db = orm.new_session_factory("sqlite:///:memory:")()
    authenticator = SimpleNamespace(manage_roles=True)
    made = SimpleNamespace(
        config=None, db=db, log=logging.getLogger("hub"), authenticator=authenticator
    )
    instance = SimpleNamespace(instance=lambda: made)
    for module in (course_groups, roles):
        monkeypatch.setattr(module, "JupyterHub", instance)
    of = SimpleNamespace(of=lambda config: SimpleNamespace(book=None))
    monkeypatch.setattr(course_groups, "Shared", of)
    yield made
    db.close()


def rostered(monkeypatch: pytest.MonkeyPatch, *courses: str) -> None:
    """Have everybody on the roster of these courses, and of dl999."""

    async def groups_in(book: Any, name: str) -> tuple[str, ...]:
        return tuple(map(group_of, (*courses, "dl999")))

    monkeypatch.setattr(course_groups, "groups_in", groups_in)


@pytest.mark.parametrize("course", NAMES)
@pytest.mark.parametrize("scopes", [["admin:users"], ["access:servers"], []])
async def test_a_roster_gives_nobody_a_role(
    hub: Any, monkeypatch: pytest.MonkeyPatch, course: str, scopes: list[str]
) -> None:
    rostered(monkeypatch, course)
    role = orm.Role(name="site-role", scopes=scopes)
    group = orm.Group(name=group_of(course), roles=[role])
    hub.db.add_all([role, group])
    hub.db.commit()
    assert await course_groups.course_groups("mallory") == (group_of("dl999"),)


@pytest.mark.parametrize("course", NAMES)
async def test_a_group_without_a_role_is_had(
    hub: Any, monkeypatch: pytest.MonkeyPatch, course: str
) -> None:
    rostered(monkeypatch, course)
    hub.db.add(orm.Group(name=group_of(course)))
    hub.db.commit()
    assert set(await course_groups.course_groups("ada")) == {group_of(course), group_of("dl999")}
