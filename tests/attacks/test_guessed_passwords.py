"""Guessing passwords: how many get through, and that nobody is locked out by it.

The rules are tried with a clock that is turned by hand; one run is against a Hub and a slapd.
"""

from __future__ import annotations

import asyncio
import base64
import re
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from login_hub import Hub, browser, hub_for, send_form
from tornado import web

from portal.demo.daemons.slapd import PASSWORD, Slapd
from portal.directory import LDAPAuthenticator
from portal.directory.origin import address_of
from portal.directory.throttle import Attempt, LoginThrottle
from portal.paths import data_path

pytestmark = pytest.mark.hub

WINDOW = 900.0


class Directory:
    """A clock, a throttle, and a directory that counts wrong passwords as real ones do."""

    def __init__(self, **settings: Any) -> None:
        self.now = 1000.0
        self.throttle = LoginThrottle(window=WINDOW, clock=lambda: self.now, **settings)
        self.counted: dict[str, list[float]] = {}

    def log_in(
        self, name: str, address: str = "", device: str = "", *, right: bool = False
    ) -> float:
        """Seconds to wait; 0.0 where the password went to the directory."""
        attempt = Attempt(name, address, device)
        wait = self.throttle.wait(attempt)
        if wait:
            assert 0 < wait <= WINDOW
            return wait
        self.throttle.begin(attempt)
        if right:
            self.counted[name] = []
        else:
            self.counted.setdefault(name, []).append(self.now)
        self.throttle.end(attempt, right)
        return 0.0

    def badness(self, name: str) -> int:
        """What the directory has counted against an account."""
        return sum(1 for at in self.counted.get(name, ()) if self.now - at < WINDOW)


@pytest.mark.parametrize("lockout", [2, 3, 4, 5, 6, 10, 50])
@pytest.mark.parametrize("places", ["strangers", "known", "all"])
def test_the_directorys_lockout_never_strikes(lockout: int, places: str) -> None:
    site = Directory(lockout=lockout)
    assert site.log_in("ada", "192.0.2.1", right=True) == 0.0
    tried = {
        "strangers": [(f"198.51.100.{n}", "") for n in range(200)],
        "known": [("192.0.2.1", ""), ("", "d1"), ("203.0.113.9", "d2")],
        "all": [("192.0.2.1", ""), ("", "d1")] + [(f"198.51.100.{n}", "") for n in range(50)],
    }[places]
    for _ in range(400):
        for address, device in tried[:6]:
            site.log_in("ada", address, device)
            assert site.badness("ada") < lockout
        site.now += 10.0


@pytest.mark.parametrize("lockout", [0, 3, 4, 5, 6, 10])
@pytest.mark.parametrize("device", ["browser-1", ""])
def test_strangers_do_not_slow_the_person(lockout: int, device: str) -> None:
    """From a browser, or an address, where they have logged in before."""
    site = Directory(lockout=lockout)
    own = "" if device else "192.0.2.1"
    assert site.log_in("ada", own, device, right=True) == 0.0
    for n in range(1000):
        site.log_in("ada", f"198.51.100.{n % 250}")
        site.now += 1.0
        if n % 50 == 0:
            assert site.log_in("ada", own, device, right=True) == 0.0


@pytest.mark.parametrize(("lockout", "most"), [(2, 1), (3, 1), (5, 3), (10, 8)])
def test_so_many_guesses_of_strangers_get_through(lockout: int, most: int) -> None:
    site = Directory(lockout=lockout)
    through = sum(site.log_in("ada", f"198.51.100.{n % 250}") == 0.0 for n in range(5000))
    assert through == most
    # All day long: a window's worth in each window, not 113 a second.
    through = 0
    for n in range(86400):
        site.now += 1.0
        through += site.log_in("ada", f"198.51.{n % 250}.{n % 249}") == 0.0
    assert through <= most * (86400 / WINDOW + 1)


def test_where_the_directory_locks_nobody_waits_double() -> None:
    site = Directory(lockout=0)
    waits = []
    for _ in range(16):
        wait = site.log_in("ada")
        while wait:
            waits.append(wait)
            site.now += wait
            wait = site.log_in("ada")
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0, 300.0]


@pytest.mark.parametrize("per_address", [5, 20])
def test_one_password_for_many_names_is_slowed_by_address(per_address: int) -> None:
    site = Directory(lockout=5, per_address=per_address)
    through = 0
    for n in range(3600):
        through += site.log_in(f"student{n}", "198.51.100.7") == 0.0
        site.now += 0.1
    assert through <= per_address + 9
    assert site.log_in("student1", "203.0.113.1") == 0.0  # another address is not slowed


def test_a_class_behind_one_router_logs_in() -> None:
    """Two hundred people, and one in five mistypes first."""
    site = Directory(lockout=5)
    for n in range(200):
        if n % 5 == 0:
            assert site.log_in(f"student{n}", "192.0.2.1") == 0.0
        assert site.log_in(f"student{n}", "192.0.2.1", right=True) == 0.0
        site.now += 1.0


def test_a_person_whose_neighbour_guesses_gets_in() -> None:
    site = Directory(lockout=5)
    assert site.log_in("ada", "192.0.2.1", right=True) == 0.0
    for n in range(500):
        site.log_in(f"name{n}", "192.0.2.1")
    assert site.log_in("ada", "192.0.2.1", right=True) == 0.0


def test_names_that_do_not_exist_wait_alike() -> None:
    """A wait must not tell which names there are."""
    site = Directory(lockout=5)
    waits = {
        name: [site.log_in(name, f"198.51.100.{n}") for n in range(8)]
        for name in ("ada", "nobody-here")
    }
    assert waits["ada"] == waits["nobody-here"]


def test_many_at_once_are_no_more() -> None:
    """Passwords on their way count: the answers may all be late."""
    site = Directory(lockout=5)
    sent = 0
    for n in range(100):
        attempt = Attempt("ada", f"198.51.100.{n}")
        if not site.throttle.wait(attempt):
            site.throttle.begin(attempt)
            sent += 1
    assert sent == 4


def test_templates_of_names_share_what_may_be_sent() -> None:
    site = Directory(lockout=6, each=2)
    assert site.throttle.most * 2 < 6


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.directory.throttle._NAMES", 50)
    site = Directory(lockout=5)
    for n in range(500):
        site.log_in(f"name{n}", f"10.0.{n % 250}.{n // 250}", right=n % 2 == 0)
    kept = site.throttle
    assert max(map(len, (kept._names, kept._addresses, kept._familiar))) <= 51


@pytest.mark.parametrize(
    ("peer", "forwarded", "trusted", "address"),
    [
        ("192.0.2.1", "", [], "192.0.2.1"),
        ("127.0.0.1", "192.0.2.1", [], "192.0.2.1"),
        ("127.0.0.1", "203.0.113.66, 192.0.2.1", [], "192.0.2.1"),  # the first is anybody's word
        ("127.0.0.1", "203.0.113.66, 192.0.2.1, 127.0.0.1", [], "192.0.2.1"),
        ("127.0.0.1", "192.0.2.1, 10.0.0.9", ["10.0.0.9"], "192.0.2.1"),
        ("127.0.0.1", "192.0.2.1, 10.0.0.9", [], "10.0.0.9"),
        ("10.0.0.7", "192.0.2.1", [], "10.0.0.7"),  # a node, past the proxy
        ("10.0.0.7", "192.0.2.1", ["10.0.0.7"], "192.0.2.1"),
        ("127.0.0.1", "not-an-address", [], ""),
        ("127.0.0.1", "192.0.2.1\n", [], "192.0.2.1"),
        ("127.0.0.1", "", [], ""),
        ("::1", "::ffff:192.0.2.1", [], "192.0.2.1"),
        ("::1", "2001:db8:1:2:3:4:5:6", [], "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "", [], "2001:db8:1:2::/64"),
        ("", "", [], ""),
    ],
)
def test_the_address_is_the_one_that_a_proxy_saw(
    peer: str, forwarded: str, trusted: list[str], address: str
) -> None:
    headers = {"X-Real-Ip": "203.0.113.99"}  # everybody may send this one
    if forwarded:
        headers["X-Forwarded-For"] = forwarded
    context = SimpleNamespace(_orig_remote_ip=peer, trusted_downstream=set(trusted))
    request = SimpleNamespace(
        headers=headers, remote_ip=peer, connection=SimpleNamespace(context=context)
    )
    assert address_of(request) == address


async def test_guesses_count_though_nobody_waits_for_the_answer() -> None:
    """A directory that answers late has counted the password all the same."""
    tried: list[str] = []

    class Late:
        can_look_up = True

        def log_in(self, name: str, password: str, deadline: float) -> None:
            tried.append(password)
            time.sleep(0.3)

    authenticator = LDAPAuthenticator(
        servers=["ldap://127.0.0.1:1"],
        search_anonymously=True,
        people_base="ou=people",
        login_timeout=0.1,
    )
    authenticator.people = Late()  # type: ignore[assignment]
    codes = []
    for n in range(8):
        with pytest.raises(web.HTTPError) as refused:
            await authenticator.authenticate(None, {"username": "ada", "password": f"guess-{n}"})
        codes.append(refused.value.status_code)
        await asyncio.sleep(0.05 if n else 0.4)
    await asyncio.sleep(0.4)
    assert codes[:2] == [503, 503] and codes[-1] == 429
    assert len(tried) <= 4


# -- a real Hub --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    server = Slapd(tmp_path_factory.mktemp("slapd"), data_path("deploy"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def hub(slapd: Slapd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    settings = {
        "servers": [slapd.uri],
        "ca_file": str(slapd.ca_file),
        "people_base": slapd.people_dn,
        "groups_base": slapd.groups_dn,
        "search_bind_dn": slapd.bind_dn,
        "search_password_file": str(slapd.bind_password_file),
    }
    with hub_for(tmp_path_factory.mktemp("hub"), settings) as running:
        yield running


def binds(slapd: Slapd, name: str) -> int:
    """How often somebody's password came to the directory."""
    bind = f'BIND dn="uid={name},{slapd.people_dn}" method'
    return slapd.log_file.read_text().count(bind)


async def test_guesses_on_a_real_hub(hub: Hub, slapd: Slapd) -> None:
    async with browser() as ada, browser() as stranger:
        assert (await send_form(ada, hub, "ada", PASSWORD)).status_code == 302
        before = binds(slapd, "ada")

        async def guess(n: int) -> httpx.Response:
            """One of many strangers, each with an address, and a claim, of their own."""
            async with browser() as one:
                one.headers.update(
                    {"X-Real-Ip": f"198.51.100.{n}", "X-Forwarded-For": f"192.0.2.{n}"}
                )
                return await send_form(one, hub, "ada", f"guess-{n}")

        answers = await asyncio.gather(*map(guess, range(60)))
        codes = [answer.status_code for answer in answers]
        assert (codes.count(403), codes.count(429)) == (3, 57)
        assert binds(slapd, "ada") - before == 3
        late = next(answer for answer in answers if answer.status_code == 429)
        assert "Too many wrong passwords. Try again in 15 min" in late.text
        assert 800 < int(late.headers["Retry-After"]) <= 900
        assert 'name="password"' in late.text and 'value="ada"' in late.text
        # The right one is not even tried from there, by the form or for a token.
        assert (await send_form(stranger, hub, "ada", PASSWORD)).status_code == 429
        async with httpx.AsyncClient() as program:
            answer = await program.post(
                f"{hub.url}/api/users/ada/tokens",
                json={"auth": {"username": "ada", "password": PASSWORD}},
            )
            assert answer.status_code == 403
        # Ada's own browser is not slowed, logged out or not; and another person is not at all.
        await ada.get(f"{hub.url}/logout")
        assert (await send_form(ada, hub, "ada", PASSWORD)).status_code == 302
        cookie = next(c for c in ada.cookies.jar if c.name == "portal-device")
        assert cookie.path == "/hub/" and cookie.has_nonstandard_attr("HttpOnly")
        # Nothing but random digits and a digest of them with the name (tornado.web, "2|1:0|…").
        device = base64.b64decode(cookie.value.strip('"').split("|")[4].partition(":")[2])
        assert re.fullmatch(rb"[0-9a-f]{24}(:[0-9a-f]{24})+", device), device
        assert (await send_form(stranger, hub, "grace", PASSWORD)).status_code == 302
        # A cookie of one's own opens no other's door, and neither does a made-up one.
        assert (await send_form(stranger, hub, "ada", PASSWORD)).status_code == 429
        stranger.cookies.set("portal-device", "a" * 24 + ":" + "b" * 24, path="/hub/")
        assert (await send_form(stranger, hub, "ada", PASSWORD)).status_code == 429
    assert PASSWORD not in hub.log_file.read_text()
    assert "guess-" not in hub.log_file.read_text()
