"""Being called like an account of the cluster: the images account, Slurm's, the Hub's own."""

from __future__ import annotations

import os
import pwd
from types import SimpleNamespace
from typing import Any

import pytest
from tornado import web
from traitlets.config import Config

from portal.courses.roster import roster
from portal.directory import LDAPAuthenticator
from portal.directory.people import DirectoryPerson
from portal.doctor.checks import directory as checks
from portal.errors import NotAllowed
from portal.service_accounts import service_accounts
from spawners.host.accounts import home_of
from spawners.host.blocking import Blocking

OWN = pwd.getpwuid(os.geteuid()).pw_name
CONFIG = Config({"Images": {"service_account": "portal-images"}})
SERVICES = ["portal-images", "PORTAL-IMAGES", "Portal-Images", "root", "slurm", "Slurm", "munge"]
SITE = service_accounts(CONFIG)


class People:
    """A directory that has whoever is asked for, with a right password."""

    can_look_up = True

    def look_up(self, name: str, deadline: float) -> DirectoryPerson:
        return DirectoryPerson(name=name, dn=f"uid={name}", groups=("staff",), mail=None)

    def log_in(self, name: str, password: str, deadline: float) -> DirectoryPerson:
        return self.look_up(name, deadline)


def authenticator(**settings: Any) -> LDAPAuthenticator:
    made = LDAPAuthenticator(
        config=CONFIG,
        servers=["ldap://127.0.0.1:1"],
        search_anonymously=True,
        people_base="ou=people",
        groups_base="ou=groups",
        **({"allow_all": True} | settings),
    )
    made.people = People()  # type: ignore[assignment]
    return made


@pytest.mark.parametrize("name", [*SERVICES, OWN])
@pytest.mark.parametrize(
    "settings",
    [{}, {"allow_all": False, "allowed_groups": {"staff"}}, {"admin_groups": {"staff"}},
     {"admin_users": set(map(str.lower, SERVICES))}],
    ids=["all", "group", "admins", "named"],
)  # fmt: skip
async def test_no_login_with_the_right_password(name: str, settings: dict[str, Any]) -> None:
    hub = authenticator(**settings)
    with pytest.raises(web.HTTPError) as refused:
        await hub.get_authenticated_user(None, {"username": name, "password": "right"})
    assert refused.value.status_code == 403
    assert "is the name of a service account" in str(refused.value.log_message)


@pytest.mark.parametrize("name", SERVICES)
async def test_a_name_that_the_site_maps_to_a_service_is_refused(name: str) -> None:
    hub = authenticator(username_map={"mallory": name.lower()})
    with pytest.raises(web.HTTPError) as refused:
        await hub.get_authenticated_user(None, {"username": "mallory", "password": "right"})
    assert refused.value.status_code == 403


@pytest.mark.parametrize("name", [*map(str.lower, SERVICES), OWN])
async def test_nobody_is_made_of_a_roster_and_who_was_there_is_out(name: str) -> None:
    hub = authenticator()
    with pytest.raises(NotAllowed, match="service account"):
        await hub.model_of(name)
    assert await hub.refresh_user(SimpleNamespace(name=name)) is False


async def test_others_log_in() -> None:
    hub = authenticator()
    for name in ("ada", "portal-images2", "slurmer", "rooted"):
        assert await hub.get_authenticated_user(None, {"username": name, "password": "right"})
        assert (await hub.model_of(name))["name"] == name


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("table", ["{}\nada", "ada, {}", "username;role\n{};x\nada;y"])
def test_a_roster_names_the_line(name: str, table: str) -> None:
    read = roster.read(table.format(name), SITE)
    assert read.names == ("ada",)
    (problem,) = read.problems
    assert "service account" in problem.message and problem.line in (1, 2)


@pytest.mark.parametrize("name", SERVICES)
async def test_no_session_under_the_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever logs people in: another authenticator than the portal's may know such a person."""
    entry = SimpleNamespace(pw_name=name, pw_uid=6101, pw_dir="/home/x")
    monkeypatch.setattr(pwd, "getpwnam", lambda _: entry)
    with pytest.raises(NotAllowed, match="service account"):
        await home_of(name, Blocking(), 60, SITE)


@pytest.mark.parametrize(
    "accounts",
    [
        {"mallory": ("mallory", 990), "portal-images": ("portal-images", 990)},  # the same number
        {"mallory": ("portal-images", 991), "portal-images": ("portal-images", 990)},  # an alias
        {"mallory": ("SLURM", 992)},
        {"mallory": ("mallory", 0)},
        {"mallory": ("mallory", os.geteuid())},
    ],
)
async def test_no_session_under_another_name_of_the_account(
    accounts: dict[str, tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def getpwnam(name: str) -> Any:
        pw_name, uid = accounts[name]
        return SimpleNamespace(pw_name=pw_name, pw_uid=uid, pw_dir="/home/x")

    monkeypatch.setattr(pwd, "getpwnam", getpwnam)
    with pytest.raises(NotAllowed, match="service account"):
        await home_of("mallory", Blocking(), 60, SITE)


@pytest.mark.parametrize(
    ("there", "level"), [([], "ok"), (["slurm"], "warning"), (["portal-images", "root"], "warning")]
)
async def test_the_doctor_names_them(
    there: list[str], level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def known(names: list[str]) -> dict[str, Any]:
        return {name: None for name in names if name in there}

    hub = SimpleNamespace(can_refresh=True, known=known)
    monkeypatch.setattr(checks, "_authenticator", lambda site: hub)
    site: Any = SimpleNamespace(authenticator=LDAPAuthenticator, config=CONFIG)
    found = await checks.service_names.function(site)
    assert found.level.value == level
    assert all(name in found.found for name in there)
