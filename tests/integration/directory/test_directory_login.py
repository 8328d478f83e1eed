"""Who gets in, who does not, and what crosses the network."""

from __future__ import annotations

import asyncio
import itertools
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from directory_site import (
    PASSWORD,
    Make,
    add_group,
    as_admin,
    lines_since,
    log_in,
    relay,
    running,
)
from machine_clock import awake
from tornado import web

from portal.demo.daemons.slapd import Slapd
from portal.directory.servers import Servers
from portal.errors import ConfigurationError

AS_USER = {
    "bind_name_templates": ["uid={username},ou=people,dc=portal,dc=demo"],
    "search_bind_dn": "",
}
NO_ANSWER = "The directory does not answer"


@pytest.mark.parametrize("tls", ["StartTLS", "LDAPS"])
@pytest.mark.parametrize("way", ["search-then-bind", "bind-as-user"])
async def test_right_password(slapd: Slapd, make: Make, tls: str, way: str) -> None:
    uri = slapd.uri if tls == "StartTLS" else slapd.ldaps_uri
    hub = make(slapd, servers=[uri], **(AS_USER if way == "bind-as-user" else {}))
    ada = await log_in(hub, "ada")
    assert ada == {
        "name": "ada",
        "admin": False,
        "groups": ["gpu-users"],
        "auth_state": {
            "dn": "uid=ada,ou=people,dc=portal,dc=demo",
            "groups": ["gpu-users"],
            "instructor": False,
            "uid": 6101,
            "gid": 6101,
            "home": "/home/ada",
        },
        "user_info": None,
    }
    assert hub.can_refresh == (way == "search-then-bind")


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("ada", "wrong"),
        ("nobody-here", PASSWORD),
        ("*)(uid=*", PASSWORD),
        ("ada)(objectClass=*", PASSWORD),
        ("*", PASSWORD),
        ("ad*", PASSWORD),
        ("", PASSWORD),
        ("ada\n", "wrong"),
        ("ada\0", PASSWORD),
        ("uid=ada,ou=people,dc=portal,dc=demo", PASSWORD),
        ("ada", ""),
        ("ada", "\0"),
        ("ada", "\0" + PASSWORD),
        ("ada", " "),
        ("portal", PASSWORD),  # in the tree, but not a person
        ("é" * 5000, PASSWORD),
        ("ada", "x" * 100_000),
    ],
)
@pytest.mark.parametrize("way", ["search-then-bind", "bind-as-user"])
async def test_refused_alike(slapd: Slapd, make: Make, way: str, name: str, password: str) -> None:
    hub = make(slapd, **(AS_USER if way == "bind-as-user" else {}))
    assert await log_in(hub, name, password) is None


async def test_no_bind_leaves_without_password(slapd: Slapd, make: Make) -> None:
    """RFC 4513, 5.1.2: a server may answer a bind without password with success."""
    mark = slapd.log_file.stat().st_size
    assert await log_in(make(slapd), "ada", "") is None
    # The end of a former test's connection may still be logged: count what is new.
    written = lines_since(slapd, mark)
    assert " ACCEPT " not in written and " BIND " not in written, written
    servers = Servers([slapd.ldaps_uri], ca_file=str(slapd.ca_file))
    with servers.open(slapd.ldaps_uri) as session, pytest.raises(ValueError, match="password"):
        session.bind("uid=ada,ou=people,dc=portal,dc=demo", "")


@pytest.mark.parametrize("name", ["*", "ad*", "ada)(objectclass=*", "*)(uid=*", "a\\da"])
async def test_filter_is_escaped_even_without_name_pattern(
    slapd: Slapd, make: Make, name: str
) -> None:
    mark = slapd.log_file.stat().st_size
    assert await log_in(make(slapd, username_pattern=".*"), name) is None
    searched = [line for line in lines_since(slapd, mark).splitlines() if "filter=" in line]
    assert len(searched) == 1
    assert "(uid=*" not in searched[0]
    assert 'filter="(uid=' in searched[0]  # still one test, not several


async def test_dn_is_escaped_even_without_name_pattern(slapd: Slapd, make: Make) -> None:
    settings = AS_USER | {
        "username_pattern": ".*",
        "bind_name_templates": ["uid={username}"],
        "people_filter": "(|(objectClass=person)(uid={username}))",
    }
    hub = make(slapd, **settings)
    assert await log_in(hub, "ada,ou=people,dc=portal,dc=demo") is None
    # The same template with the part that may not come from outside: it does log in.
    settings["bind_name_templates"] = ["uid={username},ou=people,dc=portal,dc=demo"]
    assert await log_in(make(slapd, **settings), "ada") is not None


@pytest.mark.parametrize("typed", ["ADA", " ada ", "Ada"])
async def test_name_is_normalised(slapd: Slapd, make: Make, typed: str) -> None:
    ada = await log_in(make(slapd), typed)
    assert ada is not None and ada["name"] == "ada"


@pytest.mark.parametrize(
    ("accounts", "account"),
    [
        ({"adal": 5001}, "adal"),  # as Unix has names
        ({"AdaL": 5001}, "AdaL"),
        ({"AdaL": 5001, "adal": 1001}, "AdaL"),  # somebody else's, on this machine alone
        ({"AdaL": 1001, "adal": 5001}, "adal"),
        ({"AdaL": 5001, "adal": 5001}, "adal"),  # the same one: an NSS that ignores case
        ({"adal": 1001}, "AdaL"),  # no account of theirs, and never somebody else's
        ({}, "adal"),
    ],
)
async def test_a_session_runs_as_the_directorys_account(
    own_slapd: Slapd,
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    accounts: dict[str, int],
    account: str,
) -> None:
    """The Hub's name is that account's, whatever letters were typed."""

    def getpwnam(name: str) -> SimpleNamespace:
        return SimpleNamespace(pw_uid=accounts[name])

    monkeypatch.setattr("portal.directory.people.pwd", SimpleNamespace(getpwnam=getpwnam))
    dn = f"uid=AdaL,{own_slapd.people_dn}"
    with as_admin(own_slapd) as connection:
        classes = ["inetOrgPerson", "posixAccount"]
        unix = {"uidNumber": 5001, "gidNumber": 7100, "homeDirectory": "/home/AdaL"}
        names = {"uid": "AdaL", "cn": "Ada L", "sn": "L", "userPassword": PASSWORD}
        connection.add(dn, classes, {**names, **unix})
    add_group(own_slapd, "poets", dn)
    hub = make(own_slapd, admin_users={"adal"})
    for typed in ("adal", "AdaL", "ADAL"):
        person = await log_in(hub, typed)
        assert person is not None and person["name"] == account
        assert person["admin"] is True and "poets" in person["groups"]
    assert await log_in(make(own_slapd, blocked_users={"adal"}), "AdaL") is None
    user = SimpleNamespace(name=account)
    assert (await hub.refresh_user(user))["name"] == account  # type: ignore[index]
    assert await hub.members_of("poets") == (account,)
    assert {name: found.name for name, found in (await hub.known(["adal"])).items()} == {
        "adal": account
    }


@pytest.mark.parametrize("typed", ["ada@portal.demo", "ADA@PORTAL.DEMO ", "ada@corp.example.org"])
async def test_a_name_with_the_sites_realm(slapd: Slapd, make: Make, typed: str) -> None:
    templates = ["{username}@corp.example.org", "uid={username},ou=people,dc=portal,dc=demo"]
    hub = make(slapd, bind_name_templates=templates, people_base="ou=people,dc=portal,dc=demo")
    ada = await log_in(hub, typed)
    assert ada is not None and ada["name"] == "ada"
    assert await log_in(hub, typed, "wrong") is None
    for other in ("ada@elsewhere.org", "ada@", "ada@portal.demo@x"):
        with pytest.raises(web.HTTPError, match="Sign in with your user name alone") as caught:
            await log_in(hub, other)
        assert caught.value.status_code == 403


async def test_name_pattern_covers_the_whole_name(slapd: Slapd, make: Make) -> None:
    hub = make(slapd)
    assert hub.validate_username("student01")
    for name in ("ada\n", "ada lovelace", "-ada", "1ada", "ada;id", "a" * 33, "", "..", "ada/x"):
        assert not hub.validate_username(name), name


async def test_roles_and_who_is_allowed(slapd: Slapd, make: Make) -> None:
    hub = make(slapd, allowed_groups={"GPU-users"}, admin_users={"ada"}, blocked_users={"barbara"})
    grace, ada = await log_in(hub, "grace"), await log_in(hub, "ada")
    assert grace and grace["admin"] and ada and ada["admin"]
    assert await log_in(hub, "barbara") is None
    student = await log_in(hub, "student01")  # allowed by the nested group
    assert student and not student["admin"]
    narrow = make(slapd, allowed_groups={"portal-instructors"}, allowed_users={"ada"})
    barbara = await log_in(narrow, "barbara")
    assert barbara and barbara["auth_state"]["instructor"]
    assert await log_in(narrow, "ada") and await log_in(narrow, "grace")
    with pytest.raises(web.HTTPError, match="not allowed to use this portal") as refused:
        await log_in(narrow, "student01")
    assert refused.value.status_code == 403
    assert await log_in(narrow, "student01", "wrong") is None


# -- TLS ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("tls", ["StartTLS", "LDAPS"])
async def test_certificate_of_another_authority_is_refused(
    slapd: Slapd, make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture, tls: str
) -> None:
    with running(tmp_path / "other") as other:
        uri = other.uri if tls == "StartTLS" else other.ldaps_uri
        with pytest.raises(web.HTTPError, match=NO_ANSWER):
            await log_in(make(slapd, servers=[uri]), "ada")
        assert "BIND" not in other.log_file.read_text()
    assert "certificate" in caplog.text.lower()


async def test_certificate_for_another_host_is_refused(
    slapd: Slapd, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    with relay("127.0.0.2", slapd.ldaps_port) as port:
        hub = make(slapd, servers=[f"ldaps://127.0.0.2:{port}"])
        with pytest.raises(web.HTTPError, match=NO_ANSWER):
            await log_in(hub, "ada")
        assert "127.0.0.2" in caplog.text and "certificate" in caplog.text.lower()
        spelled_out = {"verify_certificates": False, "insecure_allow_unverified_servers": True}
        hub = make(slapd, servers=[f"ldaps://127.0.0.2:{port}"], **spelled_out)
        assert await log_in(hub, "ada")
        assert "NOT verified" in caplog.text


async def test_host_name_works_too(slapd: Slapd, make: Make) -> None:
    hub = make(slapd, servers=[f"ldap://localhost:{slapd.port}"])
    assert await log_in(hub, "ada")


async def test_clear_text_only_when_spelled_out(
    slapd: Slapd, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    hub = make(slapd, use_tls=False, insecure_allow_clear_text_passwords=True)
    assert "CLEAR TEXT" in caplog.text
    # This slapd takes no password without TLS: that the other tests log in shows StartTLS.
    with pytest.raises(web.HTTPError, match=NO_ANSWER):
        await log_in(hub, "ada")
    assert "confidentiality" in caplog.text


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"verify_certificates": False}, "insecure_allow_unverified_servers = True"),
        ({"use_tls": False}, "insecure_allow_clear_text_passwords = True"),
        ({"servers": []}, "servers is empty"),
        ({"servers": ["ldap.example.org"]}, "'ldap.example.org' is not of the form"),
        ({"servers": ["http://ldap.example.org"]}, "is not of the form"),
        ({"servers": ["ldaps://ldap.example.org:port"]}, "is not of the form"),
        ({"ca_file": "/nonexistent/ca.pem"}, "ca_file: /nonexistent/ca.pem"),
        ({"search_password_file": "/nonexistent/password"}, "/nonexistent/password cannot be"),
        ({"search_password_file": ""}, "does not name a file"),
        ({"search_bind_dn": ""}, "neither bind as the user who signs in nor search"),
        ({"people_base": ""}, "people_base is empty"),
        ({"people_filter": "(uid=ada)"}, "must contain {username}"),
        ({"people_filter": "(uid={username}"}, "people_filter is not an LDAP filter"),
        ({"groups_base": ""}, "groups_base is empty"),
    ],
)
def test_refuses_to_start(slapd: Slapd, make: Make, settings: dict, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make(slapd, **settings)
    assert sentence in str(refused.value)


# -- servers that do not answer ----------------------------------------------------------------


async def test_failover_from_a_closed_port(slapd: Slapd, make: Make, closed: str) -> None:
    assert await log_in(make(slapd, servers=[closed, slapd.uri]), "ada")


async def test_failover_from_a_hanging_server(slapd: Slapd, make: Make, hanging: str) -> None:
    hub = make(slapd, servers=[hanging, slapd.uri], receive_timeout=5, login_timeout=60.0)
    start = time.monotonic()
    assert await log_in(hub, "ada")
    assert time.monotonic() - start >= 5  # it was asked first
    assert hub.people.servers._in_order() == [slapd.uri, hanging]  # and is asked last now


async def test_failover_from_a_server_that_hangs_in_tls(
    slapd: Slapd, make: Make, hanging: str
) -> None:
    servers = [hanging.replace("ldap:", "ldaps:"), slapd.ldaps_uri]
    assert await log_in(make(slapd, servers=servers, receive_timeout=5, login_timeout=60.0), "ada")


async def test_no_server_answers(slapd: Slapd, make: Make, closed: str) -> None:
    with pytest.raises(web.HTTPError, match=NO_ANSWER) as failed:
        await log_in(make(slapd, servers=[closed]), "ada")
    assert failed.value.status_code == 503


async def test_a_hanging_server_holds_nothing_up(slapd: Slapd, make: Make, hanging: str) -> None:
    """Twice as many logins as threads: each is answered in time, and the loop goes on."""
    hub = make(slapd, servers=[hanging], receive_timeout=9, login_timeout=1.0, threads=2)
    ticks: list[float] = []

    async def ticker() -> None:
        while True:
            ticks.append(awake())
            await asyncio.sleep(0.02)

    task = asyncio.create_task(ticker())
    start = awake()
    answers = await asyncio.gather(*(log_in(hub, "ada") for _ in range(4)), return_exceptions=True)
    took = awake() - start
    task.cancel()
    assert all(isinstance(a, web.HTTPError) and a.status_code == 503 for a in answers)
    assert took < 8  # not receive_timeout, nor two of them in turn
    # One login on the event loop would leave a gap of receive_timeout.
    assert max(b - a for a, b in itertools.pairwise(ticks)) < 6


async def test_search_account_refused(
    slapd: Slapd, make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = tmp_path / "password"
    wrong.write_text("not-the-password\n")
    hub = make(slapd, search_password_file=str(wrong))
    with pytest.raises(web.HTTPError, match=NO_ANSWER):
        await log_in(hub, "ada")
    assert "the search account cn=portal,dc=portal,dc=demo is refused" in caplog.text
    # The password is read anew: mended without a restart, and a lost file is no 500 page.
    wrong.write_text(slapd.bind_password_file.read_text())
    assert await log_in(hub, "ada")
    wrong.unlink()
    with pytest.raises(web.HTTPError, match=NO_ANSWER):
        await log_in(hub, "ada")


async def test_no_password_in_the_log(
    slapd: Slapd, make: Make, caplog: pytest.LogCaptureFixture, closed: str
) -> None:
    secret = slapd.bind_password_file.read_text().strip()
    hub = make(slapd)
    assert await log_in(hub, "ada")
    assert await log_in(hub, "ada", "a-wrong-secret") is None
    with pytest.raises(web.HTTPError):
        await log_in(make(slapd, servers=[closed]), "ada")
    logged = caplog.text + slapd.log_file.read_text() + repr(hub.__dict__) + repr(hub.people)
    for word in (secret, PASSWORD, "a-wrong-secret"):
        assert word not in logged
    ada = await log_in(hub, "ada")
    assert PASSWORD not in repr(ada)


async def test_probe_names_what_is_wrong(slapd: Slapd, make: Make, closed: str) -> None:
    good, bad = await make(slapd, servers=[slapd.uri, closed]).probe()
    assert (good.uri, good.trouble) == (slapd.uri, None)
    assert bad.uri == closed and bad.trouble


async def test_active_directory_name_is_sent_as_it_is(slapd: Slapd, make: Make) -> None:
    """A UPN is no DN: slapd refuses it, so only what is sent is shown here."""
    mark = slapd.log_file.stat().st_size
    hub = make(slapd, bind_name_templates=["{username}@corp.example.org"])
    assert await log_in(hub, "ada") is None
    assert "invalid dn (ada@corp.example.org)" in lines_since(slapd, mark)
