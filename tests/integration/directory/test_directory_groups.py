"""Groups: nested, in circles, deep, of posixGroup, and Active Directory's own way."""

from __future__ import annotations

import logging
import time

import pytest
from directory_site import Make, add_group, add_groups, as_admin, lines_since, log_in
from machine import patience

from portal.demo.daemons.slapd import Slapd
from portal.directory.groups import Groups


async def groups_of(hub, name: str) -> list[str]:
    person = await log_in(hub, name)
    assert person is not None
    return person["groups"]


async def test_nested_groups(slapd: Slapd, make: Make) -> None:
    assert await groups_of(make(slapd), "student30") == ["course-dl101", "gpu-users"]
    assert await groups_of(make(slapd, nested_groups="off"), "student30") == ["course-dl101"]
    assert await groups_of(make(slapd), "grace") == ["gpu-users", "portal-admins"]


async def test_nested_groups_as_the_person(slapd: Slapd, make: Make) -> None:
    """Without a search account the person's own connection reads the groups."""
    templates = ["uid={username},ou=people,dc=portal,dc=demo"]
    hub = make(slapd, search_bind_dn="", bind_name_templates=templates)
    assert await groups_of(hub, "student30") == ["course-dl101", "gpu-users"]


async def test_groups_in_a_circle(
    own_slapd: Slapd, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = (f"cn={n},{own_slapd.groups_dn}" for n in ("first", "second"))
    add_group(own_slapd, "first", f"uid=ada,{own_slapd.people_dn}", second)
    add_group(own_slapd, "second", first, second)
    assert await groups_of(make(own_slapd), "ada") == ["first", "gpu-users", "second"]
    assert "nested deeper" not in caplog.text  # the circle was seen, not cut off by the depth


async def test_depth_ends_somewhere(
    own_slapd: Slapd, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    member = f"uid=ada,{own_slapd.people_dn}"
    for level in range(5):
        member = add_group(own_slapd, f"level{level}", member)
    assert await groups_of(make(own_slapd), "ada") == [
        *("gpu-users", "level0", "level1", "level2", "level3", "level4"),
    ]
    assert "nested deeper" not in caplog.text
    shallow = make(own_slapd, group_depth=2)
    assert await groups_of(shallow, "ada") == ["gpu-users", "level0", "level1", "level2"]
    assert "nested deeper than 2 levels" in caplog.text


async def test_many_groups_at_once(own_slapd: Slapd, make: Make) -> None:
    """More groups than one filter holds, all in one more."""
    ada = f"uid=ada,{own_slapd.people_dn}"
    flat = add_groups(own_slapd, {f"flat{n:03}": [ada] for n in range(150)})
    add_group(own_slapd, "above-last", flat[-1])
    found = await groups_of(make(own_slapd), "ada")
    assert len(found) == 152 and "above-last" in found


async def test_posix_groups_and_odd_names(own_slapd: Slapd, make: Make) -> None:
    with as_admin(own_slapd) as connection:
        connection.add(
            f"cn=posix,{own_slapd.groups_dn}",
            "posixGroup",
            {"cn": "posix", "gidNumber": 7000, "memberUid": ["ada"]},
        )
    odd = add_group(own_slapd, "odd (one)\\, *two*", f"uid=ada,{own_slapd.people_dn}")
    add_group(own_slapd, "around-odd", odd)
    assert await groups_of(make(own_slapd), "ada") == [
        *("around-odd", "gpu-users", "odd (one), *two*", "posix"),
    ]
    assert await groups_of(make(own_slapd), "grace") == ["gpu-users", "portal-admins"]


async def test_the_primary_group_is_a_group(own_slapd: Slapd, make: Make) -> None:
    """No attribute of the group lists those whose gidNumber it is; groups around it count too."""
    unix = {"uidNumber": 5001, "gidNumber": 7100, "homeDirectory": "/home/x"}
    with as_admin(own_slapd) as connection:
        for name in ("student01", "student02"):
            dn = f"uid={name},{own_slapd.people_dn}"
            changes = {key: [("MODIFY_REPLACE", [value])] for key, value in unix.items()}
            connection.modify(dn, changes)
        primary = f"cn=bio,{own_slapd.groups_dn}"
        members = {"cn": "bio", "gidNumber": 7100, "memberUid": ["ada"]}
        connection.add(primary, "posixGroup", members)
        connection.add(
            f"cn=other,{own_slapd.groups_dn}", "posixGroup", {"cn": "other", "gidNumber": 7101}
        )
    add_group(own_slapd, "around", primary)
    hub = make(own_slapd)
    groups = await groups_of(hub, "student01")
    assert {"bio", "around"} <= set(groups) and "other" not in groups
    assert "bio" not in await groups_of(hub, "student03")
    assert await hub.members_of("bio") == ("ada", "student01", "student02")
    assert {"student01", "student02"} <= set(await hub.members_of("around"))
    assert await hub.members_of("other") == ()
    ad = make(own_slapd, nested_groups="ad").people
    deadline = time.monotonic() + 60
    dn = f"uid=student01,{own_slapd.people_dn}"
    groups_in_ad = ad.ask(
        lambda session: ad.groups.groups_of(session, dn, "student01", gid=7100), deadline
    )
    assert groups_in_ad == ("bio",)


async def test_half_an_answer_is_none(own_slapd: Slapd, make: Make) -> None:
    """A size limit must not read as "left the group"."""
    configuration = own_slapd.home / "slapd.conf"
    own_slapd.stop()
    configuration.write_text(
        configuration.read_text().replace("sizelimit unlimited", "sizelimit 1")
    )
    own_slapd.start()
    with pytest.raises(Exception, match="does not answer"):
        await log_in(make(own_slapd), "grace")  # two groups
    assert await groups_of(make(own_slapd), "ada") == ["gpu-users"]  # one


async def test_active_directory_asks_once_with_its_own_rule(slapd: Slapd, make: Make) -> None:
    """Only what is sent is shown here: slapd has no rule 1.2.840.113556.1.4.1941, and nobody there
    is a person of Active Directory.

    It logs a rule that it does not know as "(?=undefined)" or by its number, by version; so the
    filter that was built is compared too.
    """
    mark = slapd.log_file.stat().st_size
    people = make(slapd, nested_groups="ad").people
    dn = f"uid=student30,{slapd.people_dn}"
    deadline = time.monotonic() + patience(60)
    assert (
        people.ask(lambda session: people.groups.groups_of(session, dn, "student30"), deadline)
        == ()
    )
    searches = [line for line in lines_since(slapd, mark).splitlines() if "SRCH base=" in line]
    in_groups = [line for line in searches if f'base="{slapd.groups_dn}"' in line]
    assert len(in_groups) == 1  # the server follows the nesting, not we
    assert "1.2.840.113556.1.4.1941" in in_groups[0] or "(?=" in in_groups[0]
    built = Groups("dc=x", filter="(objectClass=group)", nesting="ad").first_filter(
        "CN=Ada (Countess),DC=x", "ada"
    )
    assert built == (
        "(&(objectClass=group)(member:1.2.840.113556.1.4.1941:=CN=Ada \\28Countess\\29,DC=x))"
    )


def test_no_groups_base_asks_nothing() -> None:
    groups = Groups("", log=logging.getLogger("test"))
    assert groups.groups_of(None, "uid=ada", "ada") == ()  # type: ignore[arg-type]
