"""What a login service says of a person, where they choose it or it is somebody else's: names of
accounts, groups of courses, claims of wrong kinds."""

from __future__ import annotations

import os
import pwd
from types import SimpleNamespace
from typing import Any

import pytest
from login_service import Provider, log_in, made, status, user
from tornado import web
from traitlets.config import Config

from portal.directory.hub_people import HubPeople
from portal.errors import NotFound

OWN = pwd.getpwuid(os.geteuid()).pw_name
CONFIG = Config({"Images": {"service_account": "portal-images"}})
SERVICES = ["portal-images", "PORTAL-IMAGES", "root", "Slurm", "munge", OWN]


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize(
    "settings",
    [{}, {"allow_all": False, "allowed_groups": {"staff"}}, {"admin_groups": {"staff"}}],
    ids=["all", "group", "admins"],
)
async def test_nobody_is_a_service_account(name: str, settings: dict[str, Any]) -> None:
    hub = made(Provider(preferred_username=name), config=CONFIG, **settings)
    with pytest.raises(web.HTTPError) as refused:
        await log_in(hub)
    assert refused.value.status_code == 403
    assert "is the name of a service account" in str(refused.value.log_message)
    there = user("staff")
    there.name = name.lower()  # from a time before it was one
    assert await hub.refresh_user(there) is False
    with pytest.raises(web.HTTPError):
        await hub.refresh_user(there, SimpleNamespace(_token_authenticated=True))


async def test_nobody_is_mapped_to_a_service_account() -> None:
    hub = made(
        Provider(preferred_username="mallory"), config=CONFIG, username_map={"mallory": "root"}
    )
    with pytest.raises(web.HTTPError, match="service account"):
        await log_in(hub)


@pytest.mark.parametrize(
    "name",
    [
        "../root", "ada/../grace", "ada%2f..", "grace\n", "grace\0", " grace", "grace ", "-grace",
        "\u212aate", "\uff47race", "gr\u0430ce", "grace@example.org", "a" * 33, "..", ".", "ada;id",
        "$(id)", "{username}", "*",
    ],
)  # fmt: skip
async def test_names_that_are_none(name: str) -> None:
    assert await log_in(made(Provider(preferred_username=name))) is None


@pytest.mark.parametrize("name", [None, "", 0, 7, True, ["ada"], {"name": "ada"}, 1.5])
async def test_a_name_of_a_wrong_kind(name: Any) -> None:
    provider = Provider(preferred_username=name)
    hub = made(provider)
    with pytest.raises(web.HTTPError) as refused:
        await log_in(hub)
    assert refused.value.status_code == 403
    assert await hub.refresh_user(user("staff")) is False


@pytest.mark.parametrize("claims", [None, [], "ada", 7, ["ada"]])
async def test_claims_of_a_wrong_kind(claims: Any) -> None:
    provider = Provider()
    provider.userinfo = claims
    hub = made(provider)
    with pytest.raises(web.HTTPError) as refused:
        await log_in(hub)
    assert refused.value.status_code == 403
    assert await hub.refresh_user(user("staff")) is False


async def test_another_name_at_the_refresh_is_another_person() -> None:
    """JupyterHub would give ada what grace may."""
    provider = Provider(groups=["ops"])
    hub = made(provider, admin_groups={"ops"})
    provider.userinfo["preferred_username"] = "grace"
    assert await hub.refresh_user(user("staff")) is False


# -- groups of courses -----------------------------------------------------------------------------

FORGED = [
    "course-deep",
    "course-",
    "COURSE-deep",
    "Course-Deep",
    "cour\u017fe-deep",
    "course-deep\n",
]


async def ada_in_deep(name: str) -> tuple[str, ...]:
    return ("course-deep",) if name == "ada" else ()


async def nobody(name: str) -> tuple[str, ...]:
    return ()


@pytest.mark.parametrize("groups", [FORGED[:4], FORGED, "course-deep", {"course-deep": True}])
async def test_no_group_of_a_login_service_gives_a_course(groups: Any) -> None:
    provider = Provider(groups=groups)
    hub = made(provider, more_groups=nobody)
    ada = await log_in(hub)
    assert ada is not None
    assert not [one for one in ada["groups"] if one.casefold().startswith("course-")]
    fresh = await hub.refresh_user(user("staff", "course-old"))
    assert isinstance(fresh, dict)
    assert not [one for one in fresh["groups"] if one.casefold().startswith("course-")]
    provider.userinfo = status(503)
    kept = await hub.refresh_user(user("staff", "course-old"))
    assert kept == {"name": "ada", "groups": ["staff"]}


async def test_the_roster_alone_does() -> None:
    hub = made(Provider(groups=["course-other", "staff"]), more_groups=ada_in_deep)
    ada = await log_in(hub)
    assert ada is not None and ada["groups"] == ["course-deep", "staff"]


async def test_a_course_lets_nobody_in_and_makes_no_admins() -> None:
    """An instructor names a course as they like."""
    provider = Provider(groups=["staff"])
    course = {"allowed_groups": {"course-deep"}, "admin_groups": {"course-deep"}}
    hub = made(provider, more_groups=ada_in_deep, allow_all=False, **course)
    assert await log_in(hub) is None
    assert await hub.refresh_user(user("staff", "course-deep")) is False
    hub = made(provider, more_groups=ada_in_deep, admin_groups={"course-deep"})
    ada = await log_in(hub)
    assert ada is not None and ada["admin"] is False


@pytest.mark.parametrize(
    "groups",
    [None, 7, "ops", [["ops"]], [{"ops": 1}], ["ops", 7, None], {"ops": False}, [], "o p s"],
)
async def test_groups_of_a_wrong_kind(groups: Any) -> None:
    hub = made(Provider(groups=groups), admin_groups={"o", "p", "s"})
    ada = await log_in(hub)
    assert ada is not None
    assert set(ada["groups"]) <= {"ops", "o p s"}
    assert ada["admin"] is False


async def test_many_and_long_groups_are_bounded() -> None:
    groups = [f"group-{n:05}" for n in range(20_000)] + ["x" * 100_000]
    ada = await log_in(made(Provider(groups=groups)))
    assert ada is not None and len(ada["groups"]) == 1000
    assert max(map(len, ada["groups"])) < 256


# -- the Hub's people as a directory ---------------------------------------------------------------


class Hub:
    """A Hub that knows everybody and every group."""

    async def people(self, names: Any) -> dict[str, dict[str, Any]]:
        return {name: {"teaches": "yes" if name == "ian" else False} for name in names}

    async def people_of(self, group: str) -> tuple[str, ...]:
        return ("ada", "grace")


@pytest.mark.parametrize("group", ["course-other", "Course-other", "course-"])
async def test_the_roster_of_another_course_is_no_group(group: str) -> None:
    """It would tell an instructor who is in somebody else's course."""
    directory = HubPeople(Hub())
    assert await directory.members_of("students") == ("ada", "grace")
    with pytest.raises(NotFound):
        await directory.members_of(group)
