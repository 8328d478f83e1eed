"""Who of a roster the directory knows, and who is in a group."""

from __future__ import annotations

import time
from typing import Any

import pytest
from directory_site import Make, add_group, as_admin
from machine_clock import awake

from portal.demo.daemons.slapd import Slapd
from portal.directory.groups import IN_CHAIN, Groups
from portal.directory.people import People
from portal.directory.rosters import Rosters
from portal.directory.servers import Entry
from portal.errors import ConfigurationError, DirectoryUnavailable, NotFound


async def test_known_and_unknown_names(slapd: Slapd, make: Make) -> None:
    hub = make(slapd)
    names = ["ada", "student30", "nobody", "*", "a)(uid=*", "ADA"]
    known = await hub.known([name.lower() for name in names])
    assert set(known) == {"ada", "student30"}
    assert known["ada"].name == "ada"
    assert await hub.known([]) == {}


async def test_five_thousand_names_take_seconds(slapd: Slapd, make: Make) -> None:
    names = [f"x{n}" for n in range(4970)] + [f"student{n:02}" for n in range(1, 31)]
    began = awake()
    assert len(await make(slapd).known(names)) == 30
    assert awake() - began < 10


async def test_people_of_nested_groups(own_slapd: Slapd, make: Make) -> None:
    inner = add_group(own_slapd, "inner", f"uid=student02,{own_slapd.people_dn}")
    outer = add_group(
        own_slapd, "outer", f"uid=student01,{own_slapd.people_dn}", inner,
        f"uid=gone,{own_slapd.people_dn}",
    )  # fmt: skip
    with as_admin(own_slapd) as connection:  # in a circle, too
        connection.modify(inner, {"member": [("MODIFY_ADD", [outer])]})
        connection.add(
            f"cn=posix,{own_slapd.groups_dn}",
            "posixGroup",
            {"cn": "posix", "gidNumber": 7001, "memberUid": ["ada", "gone"]},
        )
    hub = make(own_slapd)
    assert await hub.members_of("outer") == ("student01", "student02")
    assert await hub.members_of("posix") == ("ada",)
    assert await make(own_slapd, nested_groups="off").members_of("outer") == ("student01",)
    assert len(await hub.members_of("course-dl101")) == 30


async def test_what_is_not_there(slapd: Slapd, make: Make, closed: str) -> None:
    with pytest.raises(NotFound, match="no group 'x\\*'"):
        await make(slapd).members_of("x*")
    with pytest.raises(DirectoryUnavailable):
        await make(slapd, servers=[closed]).known(["ada"])
    templates = ["uid={username},ou=people,dc=portal,dc=demo"]
    blind = make(slapd, search_bind_dn="", bind_name_templates=templates)
    with pytest.raises(ConfigurationError, match="search_bind_dn"):
        await blind.known(["ada"])


async def test_who_may_teach(slapd: Slapd, make: Make) -> None:
    hub = make(slapd)
    assert await hub.may_teach("barbara")
    assert await hub.may_teach("grace")  # an admin
    assert not await hub.may_teach("student01")
    assert not await hub.may_teach("nobody")


async def test_large_answers_come_page_by_page(slapd: Slapd, make: Make) -> None:
    hub = make(slapd)

    def pages(session: Any) -> list[Entry]:
        return list(session.search(slapd.people_dn, "(uid=student*)", ["uid"], page=7))

    found = hub.people.ask(pages, time.monotonic() + 10)
    assert len({entry.dn for entry in found}) == 30


def test_active_directory_is_asked_with_its_own_rule() -> None:
    asked: list[tuple[str, int]] = []

    class Session:
        def search(self, base: str, filter: str, attributes: Any, page: int = 0, **_: Any) -> Any:
            asked.append((filter, page))
            if base == "ou=groups":
                return [Entry("cn=dl,ou=groups", {"cn": ("dl",)})]
            return [Entry("cn=Ada,ou=people", {"samaccountname": ("ada",)})]

    people = People(
        servers=None,  # type: ignore[arg-type]
        groups=Groups("ou=groups", nesting="ad"),
        base="ou=people",
        filter="(&(sAMAccountName={username})(objectClass=user))",
        name_attribute="sAMAccountName",
    )
    assert Rosters(people)._members(Session(), "dl") == ("ada",)  # type: ignore[arg-type]
    filter, page = asked[-1]
    assert filter == (
        "(&(&(objectCategory=person)(!(userAccountControl:1.2.840.113556.1.4.803:=2))"
        "(&(sAMAccountName=*)(objectClass=user)))"
        f"(|(memberOf:{IN_CHAIN}:=cn=dl,ou=groups)))"
    )
    assert page > 0
