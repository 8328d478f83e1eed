"""Which directory a site has, and what the Hub tells of its people."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from traitlets.config import Config, Configurable

from portal.directory import directory_of
from portal.directory.hub_people import HubPeople
from portal.directory.ldap import LdapDirectory
from portal.errors import ConfigurationError, NotFound
from portal.hubapi import HubApi

SEARCHED = {
    "servers": ["ldap://127.0.0.1:1"],
    "people_base": "ou=people",
    "search_anonymously": True,
}
UNSEARCHED = {"servers": ["ldap://127.0.0.1:1"], "bind_name_templates": ["uid={username},ou=p"]}


def directory(**ldap: Any) -> Any:
    config = Config({"LDAPAuthenticator": Config(ldap)})
    return directory_of(Configurable(config=config), SimpleNamespace())  # type: ignore[arg-type]


def test_ldap_where_it_is_configured_and_the_hub_otherwise() -> None:
    assert isinstance(directory(**SEARCHED), LdapDirectory)
    assert directory(**SEARCHED).on and directory(**SEARCHED).complete
    assert isinstance(directory(**UNSEARCHED), LdapDirectory)
    assert not directory(**UNSEARCHED).on
    for nothing in ({}, {"servers": []}, {"admin_groups": {"ops"}}):
        hub = directory(**nothing)
        assert isinstance(hub, HubPeople) and hub.on and not hub.complete


async def test_ldap_without_a_search_account_says_what_is_missing() -> None:
    ldap = directory(**UNSEARCHED)
    with pytest.raises(ConfigurationError, match=r"c\.Notices\.address"):
        await ldap.mail_of("ada")
    for asked in (ldap.known(["ada"]), ldap.members_of("staff"), ldap.may_teach("ada")):
        with pytest.raises(ConfigurationError, match="no directory that can be searched"):
            await asked


class Hub(HubApi):
    """Its client, with a Hub that knows ada, ian and a group."""

    asked: list[str]

    async def _ask(self, method: str, path: str, scope: str, *_: Any) -> Any:
        self.asked.append(path)
        query = parse_qs(urlsplit(path).query)
        told = {
            "ada": {"teaches": False, "mail": "ada@example.org"},
            "ian": {"teaches": True, "mail": None},
        }
        people: dict[str, Any] = {
            name: told[name] for name in query.get("name", ()) if name in told
        }
        if group := query.get("group"):
            if group != ["staff & co"]:
                raise NotFound("The Hub has no group.")
            people = {"ada": {}, "ian": {}}
        return SimpleNamespace(body=json.dumps({"people": people}).encode())


async def test_the_hubs_people() -> None:
    hub = Hub()
    hub.asked = []
    people = HubPeople(hub)
    assert await people.known(["ada", "nobody"]) == {"ada": "ada"}
    assert await people.members_of("staff & co") == ("ada", "ian")
    with pytest.raises(NotFound, match="No user who has signed in"):
        await people.members_of("others")
    assert [await people.may_teach(one) for one in ("ada", "ian", "nobody")] == [False, True, False]
    assert [await people.mail_of(one) for one in ("ada", "ian", "nobody")] == [
        "ada@example.org",
        None,
        None,
    ]
    hub.asked = []
    assert set(await people.known([f"s{n}" for n in range(120)] + ["ada"])) == {"ada"}
    assert len(hub.asked) == 3  # no address is too long
