"""Groups and rights follow the directory while a person is logged in."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import ldap3
import pytest
from directory_site import Make, add_group, as_admin, relay
from machine_clock import awake

from portal.demo.daemons.slapd import Slapd
from portal.errors import ConfigurationError, DirectoryUnavailable


def user(name: str) -> Any:
    """The two attributes of JupyterHub's User that a refresh touches."""
    return SimpleNamespace(name=name, _auth_refreshed=time.monotonic())


def change_members(server: Slapd, group: str, change: str, member: str) -> None:
    with as_admin(server) as connection:
        connection.modify(f"cn={group},{server.groups_dn}", {"member": [(change, [member])]})


async def test_groups_and_admin_follow(own_slapd: Slapd, make: Make) -> None:
    hub = make(own_slapd, refresh_patience=10)
    ada = f"uid=ada,{own_slapd.people_dn}"
    before = await hub.refresh_user(user("ada"))
    assert (before["groups"], before["admin"]) == (["gpu-users"], False)
    change_members(own_slapd, "portal-admins", ldap3.MODIFY_ADD, ada)
    add_group(own_slapd, "around-admins", f"cn=portal-admins,{own_slapd.groups_dn}")
    after = await hub.refresh_user(user("ada"))
    assert after["groups"] == ["around-admins", "gpu-users", "portal-admins"]
    assert after["admin"] is True
    change_members(own_slapd, "portal-admins", ldap3.MODIFY_DELETE, ada)
    again = await hub.refresh_user(user("ada"))
    assert (again["groups"], again["admin"]) == (["gpu-users"], False)


async def test_who_is_gone_is_logged_out(own_slapd: Slapd, make: Make) -> None:
    hub = make(own_slapd, refresh_patience=10)
    with as_admin(own_slapd) as connection:
        connection.delete(f"uid=ada,{own_slapd.people_dn}")
    assert await hub.refresh_user(user("ada")) is False
    assert await hub.refresh_user(user("grace"))


async def test_who_left_the_allowed_group_is_logged_out(own_slapd: Slapd, make: Make) -> None:
    hub = make(own_slapd, refresh_patience=10, allowed_groups={"gpu-users"})
    assert await hub.refresh_user(user("ada"))
    change_members(own_slapd, "gpu-users", ldap3.MODIFY_DELETE, f"uid=ada,{own_slapd.people_dn}")
    assert await hub.refresh_user(user("ada")) is False


async def test_no_answer_keeps_the_last_one(own_slapd: Slapd, make: Make) -> None:
    hub = make(own_slapd, refresh_patience=10)
    own_slapd.stop()
    assert await hub.refresh_user(user("ada")) is True
    own_slapd.start()
    assert (await hub.refresh_user(user("ada")))["groups"] == ["gpu-users"]


async def test_without_search_account_nothing_is_asked(
    slapd: Slapd, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    templates = ["uid={username},ou=people,dc=portal,dc=demo"]
    hub = make(slapd, search_bind_dn="", bind_name_templates=templates)
    size = slapd.log_file.stat().st_size
    assert await hub.refresh_user(user("nobody-at-all")) is True
    assert slapd.log_file.stat().st_size == size
    assert "groups are refreshed at login only" in caplog.text


async def test_a_hanging_server_delays_no_page(slapd: Slapd, make: Make, hanging: str) -> None:
    settings = {"servers": [hanging], "receive_timeout": 6, "login_timeout": 5.0}
    hub = make(slapd, refresh_patience=0.1, **settings)
    start = awake()
    assert await hub.refresh_user(user("ada")) is True
    # The same person's next page does not wait at all, and asks nothing more.
    assert await hub.refresh_user(user("ada")) is True
    assert awake() - start < 3
    assert len(hub._asked) == 1
    for asked, _ in hub._asked.values():
        asked.cancel()


async def test_an_answer_that_comes_late_is_used_next(slapd: Slapd, make: Make) -> None:
    with relay("127.0.0.1", slapd.port) as port:
        hub = make(slapd, servers=[f"ldap://127.0.0.1:{port}"], refresh_patience=0.0)
        ada = user("ada")
        assert await hub.refresh_user(ada) is True  # no patience: the answer is late
        (answer, _), *others = hub._asked.values()
        assert not others
        await asyncio.wait_for(asyncio.wait([answer]), 20)
        await asyncio.sleep(0)
        assert ada._auth_refreshed is None  # so that JupyterHub asks again with the next page
        assert (await hub.refresh_user(ada))["groups"] == ["gpu-users"]
        assert not hub._asked


async def test_an_old_answer_is_not_used(own_slapd: Slapd, make: Make) -> None:
    hub = make(own_slapd, refresh_patience=0.0, auth_refresh_age=1, login_timeout=5.0)
    assert await hub.refresh_user(user("ada")) is True
    answer, asked = hub._asked["ada"]
    await asyncio.wait([answer])
    hub._asked["ada"] = (answer, asked - 7)  # as if seven seconds had passed
    hub.refresh_patience = 10
    change_members(own_slapd, "portal-admins", ldap3.MODIFY_ADD, f"uid=ada,{own_slapd.people_dn}")
    assert (await hub.refresh_user(user("ada")))["groups"] == ["gpu-users", "portal-admins"]


async def test_the_mail_address_of_a_person(own_slapd: Slapd, make: Make) -> None:
    hub = make(own_slapd)
    assert await hub.mail_of("ada") == "ada@portal.demo"
    assert await hub.mail_of("nobody-of-this-name") is None
    other = make(own_slapd, mail_attribute="telephoneNumber")
    assert await other.mail_of("ada") is None
    template = f"uid={{username}},{own_slapd.people_dn}"
    without = make(own_slapd, search_bind_dn="", bind_name_templates=[template])
    with pytest.raises(ConfigurationError, match="search_bind_dn"):
        await without.mail_of("ada")
    own_slapd.stop()
    with pytest.raises(DirectoryUnavailable):
        await hub.mail_of("ada")
