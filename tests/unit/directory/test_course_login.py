"""The portal's rules around another authenticator, whose answers are made here."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.auth import Authenticator
from tornado import web
from traitlets.config import Config

from portal.directory.course_login import CourseLogin, groups_given
from portal.directory.login import may_log_in
from portal.errors import DirectoryUnavailable


class Service(Authenticator):
    """An authenticator whose ``answer`` to a refresh is a model, a bool or an exception."""

    groups: list[Any] = ["staff"]
    answer: Any = True
    seconds = 0.0
    asked = 0

    async def authenticate(self, handler: Any, data: Any) -> dict[str, Any] | None:
        if data["password"] != "right":
            return None
        return {"name": data["username"], "groups": self.groups, "auth_state": {"token": 1}}

    async def refresh_user(self, user: Any, handler: Any = None) -> Any:
        self.asked += 1
        answer = self.answer
        await asyncio.sleep(self.seconds)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def check_allowed(self, username: str, authentication: Any = None) -> bool:
        if self.allow_all or username in self.allowed_users:
            return True
        return "gpu-users" in (authentication or {}).get("groups", ())


class SiteLogin(CourseLogin, Service):
    """The two together, as a site's configuration has them."""


class Courses:
    """Who is in which course, as ``more_groups`` asks it."""

    def __init__(self) -> None:
        self.of: dict[str, set[str]] = {"ada": {"course-deep"}}

    async def __call__(self, name: str) -> tuple[str, ...]:
        await asyncio.sleep(0)
        return tuple(self.of.get(name, ()))


def made(courses: Courses | None = None, **settings: Any) -> SiteLogin:
    given = {"allow_all": True, "more_groups": courses or Courses(), "refresh_patience": 5.0}
    return SiteLogin(**(given | settings))


def user(*groups: str, name: str = "ada") -> Any:
    groups_of = [SimpleNamespace(name=one) for one in groups]
    return SimpleNamespace(name=name, groups=groups_of, _auth_refreshed=1.0)


def model(*groups: str, **more: Any) -> dict[str, Any]:
    return {"name": "ada", "groups": [*groups], "admin": None, "auth_state": {"token": 2}, **more}


async def log_in(hub: SiteLogin, name: str = "ada") -> dict[str, Any] | None:
    return await hub.get_authenticated_user(None, {"username": name, "password": "right"})


# -- login -----------------------------------------------------------------------------------------


async def test_courses_are_added_at_the_login() -> None:
    hub = made()
    ada = await log_in(hub)
    assert ada is not None
    assert ada["groups"] == ["course-deep", "staff"]
    assert ada["auth_state"] == {"token": 1}
    grace = await log_in(hub, "grace")
    assert grace is not None and grace["groups"] == ["staff"]
    assert await hub.get_authenticated_user(None, {"username": "ada", "password": "x"}) is None
    assert hub.manage_groups


async def test_a_site_without_courses_and_an_authenticator_without_groups() -> None:
    hub = made(more_groups=None)
    hub.groups = []
    ada = await log_in(hub)
    assert ada is not None and ada["groups"] == []


async def test_names_are_those_of_unix_users() -> None:
    hub = made()
    for name in ("ada lovelace", "../ada", "ada/x", "ada@example.org", "-ada", "a" * 33, "ada\n"):
        assert await log_in(hub, name) is None, name
    ada = await log_in(hub, "Ada")
    assert ada is not None and ada["name"] == "ada"


async def test_a_site_may_map_names_that_are_not_ascii() -> None:
    hub = made(username_map={"jürgen": "juergen", "kate": "katherine"})
    juergen = await log_in(hub, "jürgen")
    assert juergen is not None and juergen["name"] == "juergen"
    assert await log_in(hub, "\u212aate") is None  # the Kelvin sign, which str.lower makes a "k"
    kate = await log_in(hub, "Kate")
    assert kate is not None and kate["name"] == "katherine"


def test_settings_of_all_logins_and_of_one() -> None:
    async def others(name: str) -> tuple[str, ...]:
        return ()

    config = Config()
    config.PortalLogin.more_groups = others
    config.SiteLogin.instructor_groups = {"teachers"}
    hub = SiteLogin(config=config)
    assert hub.more_groups is others
    assert hub.instructor_groups == {"teachers"}


# -- refresh ---------------------------------------------------------------------------------------


async def test_groups_and_courses_of_today() -> None:
    courses = Courses()
    hub = made(courses)
    hub.answer = model("staff", "gpu-users", admin=True)
    fresh = await hub.refresh_user(user("staff", "course-deep"))
    assert isinstance(fresh, dict)
    assert fresh["groups"] == ["course-deep", "gpu-users", "staff"]
    assert (fresh["admin"], fresh["auth_state"]) == (True, {"token": 2})
    courses.of = {}
    fresh = await hub.refresh_user(user("staff", "course-deep"))
    assert isinstance(fresh, dict) and fresh["groups"] == ["gpu-users", "staff"]
    hub.answer = {"auth_state": {"token": 3}}  # only what changes
    fresh = await hub.refresh_user(user("staff"))
    assert isinstance(fresh, dict) and fresh["groups"] == ["staff"]


@pytest.mark.parametrize("answer", [True, DirectoryUnavailable("It does not answer.")])
async def test_the_last_groups_stay_and_courses_change(answer: Any) -> None:
    courses = Courses()
    hub = made(courses)
    hub.answer = answer
    assert await hub.refresh_user(user("staff", "course-deep")) is True
    assert await hub.refresh_user(user("staff")) == {
        "name": "ada",
        "groups": ["course-deep", "staff"],
    }
    courses.of = {}
    assert await hub.refresh_user(user("staff", "course-deep")) == {
        "name": "ada",
        "groups": ["staff"],
    }
    hub.manage_groups = False  # the Hub's admin page has them
    assert await hub.refresh_user(user("staff", "course-deep")) is True


@pytest.mark.parametrize(
    "answer",
    [
        False,
        ValueError("no such claim"),
        web.HTTPError(403),
        KeyError("token_type"),
        model("staff", name="grace"),
        model("staff", name=7),
        model("staff", name=None),
    ],
    ids=str,
)
async def test_who_is_refused_logs_in_again(answer: Any) -> None:
    hub = made()
    hub.answer = answer
    assert await hub.refresh_user(user("staff")) is False
    # While nobody answers, that holds.
    for later in (DirectoryUnavailable("It does not answer."), True):
        hub.answer = later
        assert await hub.refresh_user(user("staff")) is False
    hub.answer = model("staff")
    assert isinstance(await hub.refresh_user(user("staff")), dict)
    hub.answer = True
    assert await hub.refresh_user(user("staff", "course-deep")) is True


async def test_a_login_ends_a_refusal() -> None:
    hub = made()
    hub.answer = False
    assert await hub.refresh_user(user("staff")) is False
    hub.answer = DirectoryUnavailable("It does not answer.")
    assert await log_in(hub)
    assert await hub.refresh_user(user("staff", "course-deep")) is True


async def test_who_is_no_longer_allowed_is_out() -> None:
    hub = made(allow_all=False)
    hub.answer = model("gpu-users")
    assert isinstance(await hub.refresh_user(user("gpu-users")), dict)
    hub.answer = model("staff")
    assert await hub.refresh_user(user("gpu-users")) is False
    hub = made(blocked_users={"ada"})
    hub.answer = model("gpu-users")
    assert await hub.refresh_user(user("gpu-users")) is False


def request(of: Any, **more: Any) -> Any:
    """A request of somebody's, with a cookie unless told otherwise, as JupyterHub knows it."""
    return SimpleNamespace(_jupyterhub_user=of, **more)


async def test_who_is_out_for_good_is_out_with_tokens_and_launches() -> None:
    hub = made(allow_all=False)
    hub.answer = model("staff")
    ada, service = user("gpu-users"), object()
    page = request(ada)
    assert await hub.refresh_user(ada, page) is False
    assert page._token_authenticated is False  # JupyterHub reads it
    for answer in (model("staff"), DirectoryUnavailable("It does not answer."), True):
        hub.answer = answer
        for handler in (request(ada, _token_authenticated=True), request(service)):
            with pytest.raises(web.HTTPError) as refused:
                await hub.refresh_user(ada, handler)
            assert refused.value.status_code == 403
        assert await hub.refresh_user(ada, request(ada)) is False
    hub.answer = model("gpu-users")
    assert isinstance(await hub.refresh_user(ada, request(ada, _token_authenticated=True)), dict)


async def test_a_login_that_is_over_stops_no_session() -> None:
    """Its server reports with a token, and comes up after a night in the queue."""
    hub = made()
    hub.answer = False
    ada = user("staff")
    for handler in (request(ada, _token_authenticated=True), request(object()), request(ada), None):
        assert await hub.refresh_user(ada, handler) is False
    assert not hub.auth_refresh_strict


async def test_pages_of_one_person_share_a_question() -> None:
    """A login service that renews a token once would take the second question for a thief's."""
    hub = made()
    hub.answer, hub.seconds = model("staff"), 0.05
    pages = await asyncio.gather(*(hub.refresh_user(user("staff")) for _ in range(5)))
    assert hub.asked == 1
    assert all(isinstance(one, dict) and one["groups"] == ["course-deep", "staff"] for one in pages)
    await hub.refresh_user(user("staff"))
    assert hub.asked == 2


async def test_a_slow_answer_is_for_the_next_page() -> None:
    hub = made(refresh_patience=0.01)
    hub.answer, hub.seconds = model("gpu-users"), 0.05
    ada = user("staff", "course-deep")
    assert await hub.refresh_user(ada) is True  # as it was
    assert ada._auth_refreshed == 1.0
    while ada._auth_refreshed is not None:  # JupyterHub asks again with the next page
        await asyncio.sleep(0.01)
    fresh = await hub.refresh_user(ada)
    assert isinstance(fresh, dict) and fresh["groups"] == ["course-deep", "gpu-users"]
    assert fresh["auth_state"] == {"token": 2}  # a renewed token is not lost
    assert hub.asked == 1


async def test_an_answer_that_waited_for_long_is_no_news() -> None:
    hub = made(refresh_patience=0.01, auth_refresh_age=-61)
    hub.answer, hub.seconds = model("gpu-users"), 0.03
    ada = user("staff", "course-deep")
    assert await hub.refresh_user(ada) is True
    await asyncio.sleep(0.05)
    hub.answer, hub.seconds = False, 0.0
    assert await hub.refresh_user(ada) is False


def test_what_can_be_a_group() -> None:
    assert groups_given(["b", "a", "a", "/x"]) == ["/x", "a", "b"]
    assert groups_given(["", "x" * 256, "a\nb", "a\0", 7, None, ["a"], {"a": 1}, "x" * 255]) == [
        "x" * 255
    ]
    assert len(groups_given(f"g{n}" for n in range(5000))) == 1000


# -- who may still log in, asked while they are away -----------------------------------------------


def kept(*groups: str, name: str = "ada", admin: bool = False) -> Any:
    async def get_auth_state() -> None:
        return None

    facts = {**vars(user(*groups, name=name)), "admin": admin, "get_auth_state": get_auth_state}
    return SimpleNamespace(**facts)


async def test_who_may_still_log_in() -> None:
    rules = {"allow_all": False, "allowed_users": {"grace"}}
    hub = made(**rules, blocked_users={"mallory"})
    assert await may_log_in(hub, kept("gpu-users"))
    assert await may_log_in(hub, kept(name="grace"))
    assert await may_log_in(hub, kept(admin=True))
    assert not await may_log_in(hub, kept("staff")), "they have left the group"
    assert not await may_log_in(hub, kept("gpu-users", name="mallory"))
    hub.answer = model("staff")
    assert not await may_log_in(hub, kept("gpu-users")), "the login service says so"
    open_to_all = made()
    open_to_all.answer = False
    assert await may_log_in(open_to_all, kept()), "they must sign in again, and may"


async def test_a_rule_that_cannot_be_checked_refuses_nobody() -> None:
    class Strict(Service):
        def check_allowed(self, username: str, authentication: Any = None) -> bool:
            return bool(authentication["auth_state"]["token"])

    assert await may_log_in(Strict(allow_all=False, manage_groups=True), kept())
    groups_unknown = Service(allow_all=False, allowed_users={"grace"})
    assert await may_log_in(groups_unknown, kept())


@pytest.mark.parametrize(("status", "may"), [(403, False), (401, False), (500, True), (503, True)])
async def test_an_authenticator_may_refuse_with_an_http_error(status: int, may: bool) -> None:
    """As CILogon's does, which also raises 500 if its service does not tell enough."""

    class Raising(Service):
        def check_allowed(self, username: str, authentication: Any = None) -> bool:
            raise web.HTTPError(status)

    assert await may_log_in(Raising(allow_all=False, manage_groups=True), kept()) is may
