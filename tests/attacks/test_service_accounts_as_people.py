"""People of the directory who are called like an account of the portal's, or share its user id."""

from __future__ import annotations

import pwd
from types import SimpleNamespace
from typing import Any

import pytest

from portal.directory import LDAPAuthenticator
from portal.errors import NotAllowed
from portal.images.settings import Images
from spawners import accounts
from spawners.blocking import Blocking

BUILDS = "daemon"  # an account that every machine has, in the place of the one that builds
SERVICES = frozenset({BUILDS, "root"})


@pytest.mark.parametrize("name", ["root", BUILDS, "ada", "toor"])
@pytest.mark.parametrize("user_id", [0, pwd.getpwnam(BUILDS).pw_uid])
async def test_nobody_has_sessions_with_a_services_user_id(
    name: str, user_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pwd.getpwnam

    def named(asked: str) -> Any:
        known = SimpleNamespace(pw_uid=user_id, pw_dir=f"/home/{asked}")
        return known if asked == name else real(asked)

    monkeypatch.setattr(pwd, "getpwnam", named)
    with pytest.raises(NotAllowed, match=f"'{name}' is a service account: it has no sessions"):
        await accounts.home_of(name, Blocking(), 30, SERVICES)


async def test_who_has_a_user_id_of_their_own_has_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    real = pwd.getpwnam
    ada = SimpleNamespace(pw_uid=61234, pw_dir="/home/ada")
    monkeypatch.setattr(pwd, "getpwnam", lambda name: ada if name == "ada" else real(name))
    assert await accounts.home_of("ada", Blocking(), 30, SERVICES) == "/home/ada"


def test_the_names_are_roots_the_hubs_and_the_builds() -> None:
    named = accounts.service_accounts(Images(service_account="portal-images"))
    assert named >= {"root", "portal-images", pwd.getpwuid(0).pw_name}
    assert "" not in accounts.service_accounts(Images(service_account=""))


@pytest.mark.parametrize("name", ["root", "portal-images", "site-banned"])
@pytest.mark.parametrize("allowed", [{"allow_all": True}, {"allowed_users": {"portal-images"}}])
def test_nobody_logs_in_with_a_services_name(name: str, allowed: dict[str, Any]) -> None:
    bind = "uid={username},dc=example,dc=org"
    directory = {"servers": ["ldaps://ldap.example.org"], "bind_name_templates": [bind]}
    authenticator = LDAPAuthenticator(blocked_users={"site-banned"}, **directory, **allowed)
    accounts.block(
        authenticator, accounts.service_accounts(Images(service_account="portal-images"))
    )
    person = {"name": name, "groups": [], "admin": True}
    assert not authenticator._welcome(person), "an admin neither"
    assert authenticator._welcome({"name": "ada", "groups": [], "admin": True})
