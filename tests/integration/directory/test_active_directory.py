"""A real Active Directory, with the settings that the documentation names for it."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ldap3
import pytest
from active_directory import DOCUMENTED_FILTER, PASSWORD, ActiveDirectory
from directory_site import log_in
from tornado import web

from portal.directory import LDAPAuthenticator

ROOT = Path(__file__).resolve().parents[3]
AS_USER = {"bind_name_templates": ["{username}@corp.example.org"]}
OLD_FILTER = "(sAMAccountName={username})"
PEOPLE = ("ada", "expired", "grace", "locked", "must-change", "old")  # of gpu-users
Make = Callable[..., LDAPAuthenticator]


@pytest.fixture
def hub(domain: ActiveDirectory) -> Make:
    """An authenticator for the domain, with a log of its own: traitlets' is whichever application
    began first in this process."""
    log = logging.getLogger("hub")
    return lambda **settings: LDAPAuthenticator(**domain.settings(**settings), log=log)


@contextmanager
def changed(domain: ActiveDirectory, name: str, **values: Any) -> Iterator[None]:
    """Attributes of a person, and what they were before afterwards."""
    dn = f"CN={name},{domain.people_dn}"
    with domain.admin() as connection:
        connection.search(dn, "(objectClass=*)", ldap3.BASE, attributes=list(values))
        before = connection.response[0]["raw_attributes"]
        connection.modify(dn, {k: [(ldap3.MODIFY_REPLACE, [v])] for k, v in values.items()})
    try:
        yield
    finally:
        with domain.admin() as connection:
            connection.modify(dn, {k: [(ldap3.MODIFY_REPLACE, before[k])] for k in values})


def test_the_settings_are_those_of_the_documentation() -> None:
    text = (ROOT / "docs" / "how-to" / "existing-cluster.md").read_text()
    assert DOCUMENTED_FILTER in text
    assert DOCUMENTED_FILTER in (LDAPAuthenticator.people_filter.help or "")


@pytest.mark.parametrize("way", [{}, AS_USER], ids=["search-then-bind", "bind-as-user"])
async def test_login_with_nested_and_primary_groups(hub: Make, way: dict[str, Any]) -> None:
    # The primary group, what it is in, and what Samba itself puts that in.
    everyone = {"Domain Users", "all-staff", "Users"}
    ada = await log_in(hub(**way), "ada", PASSWORD)
    assert ada and set(ada["groups"]) == {"gpu-users", *everyone}
    grace = await log_in(hub(admin_groups={"portal-admins"}, **way), "grace", PASSWORD)
    assert grace and set(grace["groups"]) == {"gpu-users", "portal-admins", *everyone}
    assert grace["admin"]
    assert await log_in(hub(**way), "ada", "wrong") is None
    assert await log_in(hub(**way), "nobody-here", PASSWORD) is None


async def test_the_other_way_of_nesting_finds_the_same(hub: Make) -> None:
    asked = await log_in(hub(nested_groups="search"), "grace", PASSWORD)
    chained = await log_in(hub(), "grace", PASSWORD)
    assert asked and chained and asked["groups"] == chained["groups"]


@pytest.mark.parametrize("group", ["Domain Users", "all-staff"])
async def test_the_primary_group_may_let_in(hub: Make, group: str) -> None:
    authenticator = hub(allowed_groups={group}, refresh_patience=10)
    assert await log_in(authenticator, "ada", PASSWORD)
    assert await authenticator.refresh_user(SimpleNamespace(name="ada", _auth_refreshed=0))


@pytest.mark.parametrize("filter", [DOCUMENTED_FILTER, OLD_FILTER], ids=["documented", "old"])
@pytest.mark.parametrize(
    ("group", "members"),
    [
        ("gpu-users", PEOPLE),  # without the group and the computer in it, and who is disabled
        ("portal-admins", ("grace",)),
        ("Domain Users", (*PEOPLE, "administrator", "barbara", "portal", "dns-dc1")),
        ("all-staff", (*PEOPLE, "administrator", "barbara", "portal", "dns-dc1")),
    ],
)
async def test_rosters_hold_people(
    hub: Make, filter: str, group: str, members: tuple[str, ...]
) -> None:
    assert sorted(await hub(people_filter=filter).members_of(group)) == sorted(members)


@pytest.mark.parametrize("filter", [DOCUMENTED_FILTER, OLD_FILTER], ids=["documented", "old"])
async def test_groups_computers_and_disabled_people_are_nobody(hub: Make, filter: str) -> None:
    names = ["ada", "gpu-users", "ws1$", "dc1$", "disabled", "domain users", "krbtgt", ""]
    assert set(await hub(people_filter=filter).known(names)) == {"ada"}


_NEW = "it must be changed first"


@pytest.mark.parametrize("way", [{}, AS_USER], ids=["search-then-bind", "bind-as-user"])
@pytest.mark.parametrize(
    ("name", "told", "logged"),
    [
        ("must-change", _NEW, "the password must be changed"),
        ("old", _NEW, "the password has expired"),
        ("expired", "your account has expired", "the account has expired"),
    ],
)
async def test_what_a_right_password_is_told(
    hub: Make,
    caplog: pytest.LogCaptureFixture,
    way: dict[str, Any],
    name: str,
    told: str,
    logged: str,
) -> None:
    with pytest.raises(web.HTTPError, match=told) as refused:
        await log_in(hub(**way), name, PASSWORD)
    assert refused.value.status_code == 403
    assert f"cannot sign in: {logged}" in caplog.text
    caplog.clear()
    assert await log_in(hub(**way), name, "wrong") is None  # and nothing is told, nor counted below
    assert "cannot sign in" not in caplog.text


async def test_who_is_locked_is_told_what_a_stranger_is(
    hub: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """Active Directory says so after a wrong password too."""
    assert await log_in(hub(), "locked", PASSWORD) is None
    assert "cannot sign in: the account is locked" in caplog.text


async def test_who_is_disabled_is_told_after_the_right_password(
    hub: Make, caplog: pytest.LogCaptureFixture
) -> None:
    assert await log_in(hub(), "disabled", PASSWORD) is None  # no person: nothing to bind as
    with pytest.raises(web.HTTPError, match="your account is disabled"):
        await log_in(hub(**AS_USER), "disabled", PASSWORD)
    assert await log_in(hub(**AS_USER), "disabled", "wrong") is None


async def test_who_is_disabled_is_logged_out(hub: Make, domain: ActiveDirectory) -> None:
    authenticator = hub(people_filter=OLD_FILTER, refresh_patience=10)
    barbara = SimpleNamespace(name="barbara", _auth_refreshed=0)
    assert await authenticator.refresh_user(barbara)
    with changed(domain, "barbara", userAccountControl=str(0x10202)):
        assert await authenticator.refresh_user(barbara) is False


async def test_guesses_here_lock_nobody_out_there(hub: Make, domain: ActiveDirectory) -> None:
    """The domain locks after five; the portal's default sends less."""
    authenticator = hub()
    codes = []
    for n in range(12):
        try:
            assert await log_in(authenticator, "barbara", f"guess-{n}") is None
        except web.HTTPError as error:
            codes.append(error.status_code)
    assert codes == [429] * 9
    assert await log_in(hub(), "barbara", PASSWORD)  # as the Hub of another day would


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates are checked as Python 3.13 does by default."""
    plain = ssl.create_default_context

    def context(*args: Any, **kwargs: Any) -> ssl.SSLContext:
        made = plain(*args, **kwargs)
        made.verify_flags |= ssl.VERIFY_X509_STRICT
        return made

    monkeypatch.setattr(ssl, "create_default_context", context)


@pytest.mark.usefixtures("strict")
async def test_the_certificate_that_samba_makes(domain: ActiveDirectory) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(domain.own_tls / "cert.pem", domain.own_tls / "key.pem")

    async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(nothing, "127.0.0.1", 0, ssl=server) as running:
        uri = f"ldaps://127.0.0.1:{running.sockets[0].getsockname()[1]}"
        settings = domain.settings(servers=[uri], ca_file=str(domain.own_tls / "ca.pem"))
        (answer,) = await LDAPAuthenticator(**settings).probe()
    assert answer.trouble and "Certificates that Samba creates do not" in answer.trouble
    assert "give the server a certificate of your own authority" in answer.trouble


@pytest.mark.usefixtures("strict")
async def test_a_certificate_by_the_rules_passes_the_strict_check(
    domain: ActiveDirectory,
) -> None:
    (answer,) = await LDAPAuthenticator(**domain.settings()).probe()
    assert answer.trouble is None
