"""Who is refused stays refused, however slow the directory is; its answers are made here."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from portal.directory import LDAPAuthenticator
from portal.directory.people import DirectoryPerson
from portal.errors import DirectoryUnavailable

ADA = DirectoryPerson("ada", "uid=ada,ou=people", ("gpu-users",))
ADMIN = DirectoryPerson("ada", "uid=ada,ou=people", ("portal-admins",))
SLOW = 0.06  # seconds that an answer takes; a page waits for a third of that
PATIENCE = 0.02


class SlowPeople:
    """A directory that answers after ``seconds``; ``answer`` is a person, None or an error."""

    can_look_up = True

    def __init__(self, answer: Any, seconds: float) -> None:
        self.answer = answer
        self.seconds = seconds
        self.asked = 0

    def look_up(self, name: str, deadline: float) -> DirectoryPerson | None:
        self.asked += 1
        answer = self.answer
        time.sleep(self.seconds)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def log_in(self, name: str, password: str, deadline: float) -> DirectoryPerson | None:
        return self.look_up(name, deadline)


def made(answer: Any, seconds: float = SLOW, **settings: Any) -> tuple[LDAPAuthenticator, Any]:
    """An authenticator and its directory."""
    given = {
        "servers": ["ldap://127.0.0.1:1"],
        "search_anonymously": True,
        "people_base": "ou=people",
        "groups_base": "ou=groups",
        "admin_groups": {"portal-admins"},
        "refresh_patience": PATIENCE,
        "login_timeout": 5.0,
    }
    hub = LDAPAuthenticator(**(given | settings))
    hub.people = SlowPeople(answer, seconds)  # type: ignore[assignment]
    return hub, hub.people


def user() -> Any:
    return SimpleNamespace(name="ada", _auth_refreshed=None)


def request(method: str) -> Any:
    return SimpleNamespace(request=SimpleNamespace(method=method))


async def answered(hub: LDAPAuthenticator) -> None:
    """Return when the directory has answered what was asked."""
    await asyncio.wait([answer for answer, _ in hub._asked.values()])


async def refused(hub: LDAPAuthenticator) -> None:
    assert await hub.refresh_user(user()) is True  # the first page does not wait so long
    await answered(hub)
    assert await hub.refresh_user(user()) is False


@pytest.mark.parametrize("answer", [None, ADA], ids=["gone", "no longer allowed"])
async def test_a_refusal_that_came_late_holds(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hub, people = made(answer, allowed_groups={"portal-admins"})
    await refused(hub)
    # The login page asks with the same cookie, and so does every page and token after it.
    assert [await hub.refresh_user(user()) for _ in range(10)] == [False] * 10
    assert people.asked == 1
    monkeypatch.setattr("portal.directory.authenticator._REFUSAL_AGE", 0.0)
    assert [await hub.refresh_user(user()) for _ in range(3)] == [False] * 3
    assert people.asked == 4  # asked anew, and waited for


async def test_a_refusal_holds_while_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    hub, people = made(None)
    await refused(hub)
    monkeypatch.setattr("portal.directory.authenticator._REFUSAL_AGE", 0.0)
    people.answer = DirectoryUnavailable("no answer")
    assert await hub.refresh_user(user()) is False
    hub.login_timeout = 0.1
    people.seconds, people.answer = 0.3, ADA  # later than that
    assert await hub.refresh_user(user()) is False


async def test_a_positive_answer_ends_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    hub, people = made(None)
    await refused(hub)
    monkeypatch.setattr("portal.directory.authenticator._REFUSAL_AGE", 0.0)
    people.answer = ADA
    model = await hub.refresh_user(user())
    assert isinstance(model, dict) and model["groups"] == ["gpu-users"]
    assert await hub.refresh_user(user()) is True  # late again, and in


async def test_a_login_ends_a_refusal_of_who_is_allowed() -> None:
    hub, people = made(None)
    await refused(hub)
    people.answer = ADA
    assert await hub.authenticate(None, {"username": "ada", "password": "right"})
    assert await hub.refresh_user(user()) is True
    hub, people = made(None, allowed_groups={"portal-admins"})
    await refused(hub)
    people.answer = ADA
    assert await hub.authenticate(None, {"username": "ada", "password": "right"})
    assert await hub.refresh_user(user()) is False  # the Hub refuses that login, and so does this


async def test_a_refusal_that_nobody_used_is_no_old_news() -> None:
    hub, _ = made(None, auth_refresh_age=0, login_timeout=0.1)
    assert await hub.refresh_user(user()) is True
    await answered(hub)
    await asyncio.sleep(0.15)  # older than both together
    assert await hub.refresh_user(user()) is False


async def test_an_old_answer_is_used_where_the_new_one_is_late() -> None:
    """Somebody who looks in once a day is an admin of yesterday for one page, not for ever."""
    hub, people = made(ADA, auth_refresh_age=0, login_timeout=0.2)
    assert await hub.refresh_user(user()) is True
    await answered(hub)
    await asyncio.sleep(0.25)
    people.answer = ADMIN
    model = await hub.refresh_user(user())
    assert isinstance(model, dict) and model["admin"] is False
    await answered(hub)
    model = await hub.refresh_user(user())
    assert isinstance(model, dict) and model["admin"] is True


@pytest.mark.parametrize("method", ["POST", "DELETE", "PATCH", "PUT"])
async def test_what_changes_something_waits_for_the_answer(method: str) -> None:
    hub, _ = made(None)
    assert await hub.refresh_user(user(), request(method)) is False


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
async def test_what_looks_does_not_wait(method: str) -> None:
    hub, _ = made(None)
    assert await hub.refresh_user(user(), request(method)) is True
    await answered(hub)


async def test_a_launch_waits_for_an_answer_under_way() -> None:
    hub, people = made(None)
    assert await hub.refresh_user(user()) is True
    assert await hub.refresh_user(user(), request("POST")) is False
    assert people.asked == 1


async def test_no_answer_keeps_who_was_in() -> None:
    hub, _ = made(DirectoryUnavailable("no answer"), seconds=0.0)
    assert await hub.refresh_user(user(), request("POST")) is True


async def test_refused_once_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.directory.authenticator._REFUSAL_AGE", 0.0)
    hub, _ = made(None, seconds=0.0, refresh_patience=5.0)
    assert [await hub.refresh_user(user()) for _ in range(5)] == [False] * 5
    assert caplog.text.count("no longer in the directory") <= 1


def test_tokens_and_launches_follow_the_directory() -> None:
    hub = LDAPAuthenticator(
        servers=["ldap://127.0.0.1:1"], search_anonymously=True, people_base="ou=people"
    )
    assert hub.auth_refresh_strict and hub.refresh_pre_spawn
