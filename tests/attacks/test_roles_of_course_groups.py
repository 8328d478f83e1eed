"""Getting a role of the site by being in a course: the Hub gives roles by the names of groups, and
an instructor chooses a course's name and its people."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import orm
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from stored_courses import a_course, stored
from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue

from portal.courses.definition.rules import CourseRules
from portal.courses.settings import Courses
from portal.directory.site_roles import groups_with_roles
from portal.doctor.checks.courses import course_groups_with_roles
from portal.doctor.checks.courses import roles as course_roles
from portal.models.course.course import Course
from portal.models.space import Role, SpaceState
from spawners.config import course_groups, roles


def role(**more: Any) -> dict[str, Any]:
    return {"name": "site", "scopes": ["admin:users"], **more}


def appended(*values: Any) -> LazyConfigValue:
    lazy = LazyConfigValue()
    for value in values:
        lazy.append(value)
    return lazy


def updated(*values: str) -> LazyConfigValue:
    lazy = LazyConfigValue()
    lazy.update(set(values))
    return lazy


def hub(**settings: Any) -> dict[str, Any]:
    return {"JupyterHub": settings}


# Every way in which a site gives a role to a group.
WAYS: dict[str, dict[str, Any]] = {
    "list": hub(load_roles=[role(groups=["course-ops"])]),
    "tuple": hub(load_roles=[role(groups=("course-ops",))]),
    "set": hub(load_roles=[role(), role(groups={"course-ops", "other"})]),
    "appended": hub(load_roles=appended(role(), role(groups=["course-ops"]))),
    "beside the portal's": hub(
        load_roles=appended(role(groups=roles.Members("groups")), role(groups=["course-ops"]))
    ),
    "admins of the portal": {"PortalAdmins": {"groups": {"course-ops"}}},
    "added admins": {"PortalAdmins": {"groups": updated("course-ops")}},
    "admins": {"LDAPAuthenticator": {"admin_groups": {"course-ops"}}},
    "instructors": {"LDAPAuthenticator": {"instructor_groups": {"course-ops"}}},
    "of OAuth": {"GenericOAuthenticator": {"admin_groups": {"course-ops"}}},
    "of all": {"Authenticator": {"admin_groups": ["course-ops"]}},
}
HARMLESS: list[dict[str, Any]] = [
    {},
    hub(load_roles=[role(groups=["ops", "course", "my-course-ops"])]),
    hub(load_roles=[role(users=["course-ops"]), role(groups=None), role(groups="course-ops")]),
    hub(load_roles=None),
    hub(load_roles=["course-ops", None]),
    {"LDAPAuthenticator": {"allowed_groups": {"course-ops"}}},
]


@pytest.mark.parametrize("way", WAYS)
def test_each_way_is_seen(way: str) -> None:
    assert course_groups_with_roles(Config(WAYS[way])) == ["course-ops"]


@pytest.mark.parametrize("config", HARMLESS)
def test_what_gives_no_role_is_none(config: dict[str, Any]) -> None:
    assert course_groups_with_roles(Config(config)) == []


# -- a course of that name -----------------------------------------------------------------------


def course(name: str) -> Course:
    return a_course(name, begins="2027-01-01", ends="2027-03-01")


@pytest.mark.parametrize("way", WAYS)
def test_no_course_gets_the_name(way: str) -> None:
    settings = Courses(config=Config(WAYS[way]))
    rules = CourseRules(settings, None, None)  # type: ignore[arg-type]
    (problem,) = rules._names(course("ops"), None)
    assert (problem.field, problem.hint) == ("name", False)
    assert "The group 'course-ops' has a role" in problem.message
    assert "Choose another name" in problem.message
    other = stored(course("dl"), state=SpaceState.DRAFT)
    assert not rules._names(course("ops"), other)[0].hint, "a copy is a course of its own"
    there = stored(course("ops"), state=SpaceState.DRAFT)
    (problem,) = rules._names(course("ops"), there)
    assert problem.hint and "Ask an admin" in problem.message
    assert rules._names(course("op"), None) == rules._names(course("ops2"), None) == []


# -- a course that was there before the role ----------------------------------------------------


@pytest.fixture
def db() -> Iterator[Session]:
    engine = create_engine("sqlite://")
    orm.Base.metadata.create_all(engine)
    with Session(engine) as session:
        yield session


def site(config: Config, db: Session, monkeypatch: pytest.MonkeyPatch, *, away: bool) -> None:
    """The Hub of a site where ada is in the courses "ops" and "dl"."""
    authenticator = SimpleNamespace(manage_roles=False)
    running = SimpleNamespace(
        config=config, db=db, log=logging.getLogger("hub"), authenticator=authenticator
    )

    async def mine(person: str) -> dict[str, Any]:
        if away:
            raise course_groups.PortalError("It does not answer.")
        state = SimpleNamespace(state=SpaceState.APPROVED)
        return {name: SimpleNamespace(stored=state, role=Role.STUDENT) for name in ("ops", "dl")}

    shared = SimpleNamespace(memberships=SimpleNamespace(mine=mine))
    for module in (course_groups, roles):
        monkeypatch.setattr(module, "JupyterHub", SimpleNamespace(instance=lambda: running))
    monkeypatch.setattr(
        course_groups, "HubContext", SimpleNamespace(instance=lambda config: shared)
    )


@pytest.mark.parametrize("away", [False, True], ids=["", "the database is away"])
@pytest.mark.parametrize("way", [*WAYS, "the Hub's database"])
async def test_nobody_of_a_course_that_is_there_gets_the_role(
    way: str, away: bool, db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = orm.User(name="ada")
    groups = [orm.Group(name=name) for name in ("course-ops", "course-dl", "staff")]
    db.add_all([user, *groups])
    user.groups = groups
    if way == "the Hub's database":  # of an authenticator that manages roles
        db.add(orm.Role(name="site", scopes=["admin:users"], groups=[groups[0]]))
    db.commit()
    site(Config(WAYS.get(way, {})), db, monkeypatch, away=away)
    assert await course_groups.course_groups("ada") == ("course-dl",)


# -- the doctor ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_the_doctor_names_the_group(way: str) -> None:
    found = await course_roles.function(SimpleNamespace(config=Config(WAYS[way])))  # type: ignore[arg-type]
    assert found.level.value == "warning" and "course-ops" in found.found


@pytest.mark.parametrize("config", HARMLESS)
async def test_the_doctor_is_content(config: dict[str, Any]) -> None:
    found = await course_roles.function(SimpleNamespace(config=Config(config)))  # type: ignore[arg-type]
    assert found.level.value == "ok"
    assert groups_with_roles(Config(config)) <= {"ops", "course", "my-course-ops"}
