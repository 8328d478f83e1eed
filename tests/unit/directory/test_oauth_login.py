"""OpenID Connect: what comes of claims, and of a provider that is away; its answers are made
here."""

from __future__ import annotations

from typing import Any

import pytest
from login_service import TOKEN, InTurn, Provider, log_in, made, status, user
from tornado import web


async def test_people_and_groups_come_from_the_claims() -> None:
    hub = made(
        Provider(groups=["staff", "ops"], email="ada@example.org"),
        admin_groups={"ops"},
        instructor_groups={"staff"},
    )
    ada = await log_in(hub)
    assert ada is not None
    assert (ada["name"], ada["groups"], ada["admin"]) == ("ada", ["ops", "staff"], True)
    assert hub.mail_in(ada["auth_state"]) == "ada@example.org"
    assert hub.username_pattern and hub.manage_groups


@pytest.mark.parametrize(
    ("claims", "mail"),
    [
        ({}, None),
        ({"email": ""}, None),
        ({"email": ["ada@example.org"]}, None),
        ({"email": "ada@example.org", "email_verified": True}, "ada@example.org"),
        ({"email": "all@example.org", "email_verified": False}, None),
        ({"email": "all@example.org", "email_verified": "false"}, None),
    ],
)
async def test_mail_addresses(claims: dict[str, Any], mail: str | None) -> None:
    hub = made(Provider(**claims))
    ada = await log_in(hub)
    assert ada is not None and hub.mail_in(ada["auth_state"]) == mail


@pytest.mark.parametrize("state", [None, {}, {"oauth_user": None}, {"oauth_user": []}, []])
def test_no_mail_address_where_nothing_is_kept(state: Any) -> None:
    assert made(Provider()).mail_in(state) is None


def test_the_claim_of_the_mail_address_is_a_setting() -> None:
    hub = made(Provider(), mail_claim="mail")
    assert hub.mail_in({"oauth_user": {"mail": "a@b.org", "email": "c@d.org"}}) == "a@b.org"


AWAY = [
    *map(status, (503, 502, 599, 429, 408)),
    ConnectionRefusedError("refused"),
    OSError("no such name"),
]


@pytest.mark.parametrize("trouble", AWAY, ids=str)
async def test_a_provider_that_is_away_changes_nothing(trouble: Any) -> None:
    provider = Provider()
    hub = made(provider)
    provider.userinfo = trouble
    assert await hub.refresh_user(user("staff")) is True
    # The token has run out, and cannot be renewed now.
    provider.userinfo, provider.token = status(401), trouble
    assert await hub.refresh_user(user("staff")) is True
    # It was renewed, and then the provider went away.
    provider.userinfo, provider.token = InTurn([status(401), status(503)]), TOKEN
    assert await hub.refresh_user(user("staff")) is True
    provider.userinfo, provider.token = trouble, trouble
    with pytest.raises(web.HTTPError) as refused:
        await log_in(hub)
    assert refused.value.status_code == 503
    assert "login service does not answer" in str(refused.value.log_message)


@pytest.mark.parametrize("code", [400, 401, 403])
async def test_a_login_that_the_provider_has_ended(code: int) -> None:
    provider = Provider()
    hub = made(provider)
    provider.userinfo = provider.token = status(code)
    assert await hub.refresh_user(user("staff")) is False
    assert provider.asked == ["userinfo", "token"]
    # Who was refused stays out while the provider is away.
    provider.userinfo = provider.token = status(503)
    assert await hub.refresh_user(user("staff")) is False
    provider.userinfo = {"preferred_username": "ada", "groups": ["staff"]}
    assert isinstance(await hub.refresh_user(user("staff")), dict)


async def test_groups_follow_at_the_refresh() -> None:
    provider = Provider()
    hub = made(provider, admin_groups={"ops"}, allowed_groups={"staff", "ops"}, allow_all=False)
    provider.userinfo["groups"] = ["staff", "ops"]
    fresh = await hub.refresh_user(user("staff"))
    assert isinstance(fresh, dict)
    assert (fresh["groups"], fresh["admin"]) == (["ops", "staff"], True)
    provider.userinfo["groups"] = ["staff"]
    fresh = await hub.refresh_user(user("staff", "ops"))
    assert isinstance(fresh, dict) and (fresh["groups"], fresh["admin"]) == (["staff"], False)
    provider.userinfo["groups"] = []
    assert await hub.refresh_user(user("staff")) is False


async def test_a_renewed_token_is_kept() -> None:
    provider = Provider()
    provider.userinfo = InTurn([status(401), provider.userinfo])
    provider.token = {"access_token": "two", "token_type": "Bearer"}
    hub = made(provider)
    fresh = await hub.refresh_user(user("staff"))
    assert isinstance(fresh, dict)
    assert fresh["auth_state"]["access_token"] == "two"
    assert fresh["auth_state"]["refresh_token"] == "more"


async def test_without_kept_tokens_groups_stay_until_the_next_login() -> None:
    provider = Provider()

    async def courses(name: str) -> tuple[str, ...]:
        return ("course-deep",)

    hub = made(provider, enable_auth_state=False, more_groups=courses)
    assert await hub.refresh_user(user("staff")) == {
        "name": "ada",
        "groups": ["course-deep", "staff"],
    }
    assert provider.asked == []
