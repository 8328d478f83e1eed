"""Instructors name repositories that are not outside: this machine, its links, private networks,
by each way to write such an address, by names that resolve to one, by redirects, by a name that
means another address at the second look."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from git_server import GitServer, Repository, serve
from quiet_http import QuietHandler

from portal.addresses import Destination, allows, destination, host_problem, outside
from portal.courses.definition.sources import repository_problem
from portal.courses.files.git import Git, GitFailed, pinned
from portal.courses.files.source_sync import REFERENCE, fetch
from portal.errors import InvalidRequest

INSIDE = (
    # this machine
    "127.0.0.1", "127.0.0.2", "127.1.2.3", "127.255.255.254", "0.0.0.0", "0.1.2.3",
    # links, with the metadata of clouds
    "169.254.0.1", "169.254.169.254", "169.254.170.2", "169.254.255.255",
    # private networks, carriers' and others' that are nobody's
    "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1",
    "192.168.255.255", "100.64.0.1", "100.127.255.255", "198.18.0.1", "198.19.255.255",
    "192.0.0.1", "192.0.0.8", "192.0.2.1", "198.51.100.1", "203.0.113.1",
    # many, all, and those to come
    "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    # IPv6
    "::1", "::", "::2", "fe80::1", "febf::1", "fec0::1", "fc00::1", "fd00::1", "fd12:3456::1",
    "ff02::1", "ff05::2", "100::1", "2001:db8::1", "2001:10::1", "64:ff9b:1::1",
    # IPv4 within
    "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
    "::ffff:0.0.0.0", "::127.0.0.1", "::10.0.0.1", "::7f00:1", "2002:7f00:1::", "2002:a00:1::1",
    "2002:a9fe:a9fe::", "2002:c0a8:1::", "64:ff9b::127.0.0.1", "64:ff9b::a00:1",
    "64:ff9b::a9fe:a9fe", "2001:0:7f00:1::1", "2001:0:4136:e378:8000:63bf:80ff:fffe",
)  # fmt: skip
OUTSIDE = (
    "1.1.1.1", "8.8.8.8", "140.82.121.4", "172.15.255.255", "172.32.0.1", "100.63.255.255",
    "100.128.0.1", "169.253.255.255", "11.0.0.1", "192.167.255.255", "128.0.0.1",
    "2606:4700:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8", "64:ff9b::808:808",
    "2002:808:808::1",
)  # fmt: skip
# What the C library, and curl, take for an address that is inside.
NUMBERS = (
    "2130706433", "0x7f000001", "0X7F000001", "017700000001", "127.1", "127.0.1", "0x7f.1",
    "0x7f.0x0.0x0.0x1", "0177.0.0.1", "0177.1", "00177.0.0.01", "0x7f.0.1", "127.0x1", "0", "0.0",
    "0x0", "00000000", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518",
    "0xa9.0xfe.0xa9.0xfe", "167772161", "0xa000001", "10.1", "012.0.0.1", "3232235521",
    "0xc0a80001", "192.168.1", "localhost", "LOCALHOST", "LocalHost", "localhost.", "127.0.0.1.",
)  # fmt: skip
# Not even looked up: programs differ on what these are.
NO_HOST = (
    "127.0.0.1%00.example.org", "%31%32%37.0.0.1", "127%2e0%2e0%2e1", "fe80::1%eth0", "::1%lo",
    "１２７.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1", "127．0．0．1", "ｌocalhost", "loc\u00adalhost",  # noqa: RUF001
    "local\u200bhost", "example.org\\127.0.0.1", "example..org", "..", ".", "", "-x", "a_b-",
    "[::1]",
    "127.0.0.1 ", " 127.0.0.1", "127.0.0.1\t", "127.0.0.1\n", "127.0.0.1\0", "a" * 260, "ex ample",
    "{127.0.0.1}", "127.0.0.[1-9]", "$(id)", "`id`", "exa'mple", 'exa"mple', "a,b", "a;b", "a|b",
)  # fmt: skip
URLS = (
    "https://user@127.0.0.1/x", "https://github.com@127.0.0.1/x", "https://github.com:x@127.0.0.1/",
    "https://127.0.0.1#@github.com/x", "https://github.com#@127.0.0.1/", "https://github.com\\@127.0.0.1/",
    "https://github.com\\.127.0.0.1/", "https://127.0.0.1\\@github.com/", "https:\\\\127.0.0.1/x",
    "https:/127.0.0.1/x", "https:127.0.0.1/x", "//127.0.0.1/x", "HTTP://127.0.0.1/x",
    "http://127.0.0.1/x", "git://127.0.0.1/x", "ssh://127.0.0.1/x", "file://127.0.0.1/x",
    "ftp://127.0.0.1/x", "gopher://127.0.0.1:8081/x", "dict://127.0.0.1/x", "ldap://127.0.0.1/x",
    "smb://127.0.0.1/x", "scp://127.0.0.1/x", "https://[::1%25lo]/x", "https://[::ffff:127.0.0.1%25]/x",
    "https://[::1/x", "https://::1]/x", "https://127.0.0.1:99999/x", "https://127.0.0.1:-1/x",
    "https://127.0.0.1:0x50/x", "https://127.0.0.1:80:81/x", "https://1%32%37.0.0.1/x",
    "https://１２７.0.0.1/x", "https://ex\u0430mple.org/x", "https://a b/x", "https://a\tb/x",  # noqa: RUF001
    "https://a\nHost: b/x", "https://a\r\nb/x", "https://a\0b/x", "https://a{b,c}/x", "https://a`id`/x",
    "https://$(id)/x", "ext::sh -c id", "http::https://127.0.0.1/", "https::file:///etc", "-c x=y",
    "127.0.0.1:x", "git@127.0.0.1:x", "127.0.0.1/x", "https://", "https:///x", "https://?x", "https://#x",
)  # fmt: skip


@pytest.mark.parametrize("text", INSIDE)
async def test_an_address_inside_is_not_asked(text: str) -> None:
    assert not outside(ip_address(text))
    with pytest.raises(InvalidRequest, match=r"inside of this site|cannot be found"):
        await destination(text, 443, [], setting="c.X.hosts", field="source")


@pytest.mark.parametrize("text", OUTSIDE)
async def test_one_outside_is(text: str) -> None:
    assert outside(ip_address(text))
    found = await destination(text, 443, [], setting="c.X.hosts", field="source")
    assert found == (text, 443, (text,))


@pytest.mark.parametrize("text", NUMBERS)
async def test_other_ways_to_write_it(text: str) -> None:
    """As this machine's C library reads them: no answer is fine, one that is outside is not."""
    with pytest.raises(InvalidRequest):
        await destination(text, 443, [], setting="c.X.hosts", field="source")


@pytest.mark.parametrize("text", NO_HOST)
async def test_what_is_no_name_is_not_looked_up(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("it was looked up"))
    assert host_problem(text)
    with pytest.raises(InvalidRequest, match="no name of a host"):
        await destination(text, 443, [], setting="c.X.hosts", field="source")


@pytest.mark.parametrize("text", URLS)
def test_addresses_that_programs_read_in_two_ways(text: str) -> None:
    assert repository_problem(text)


def answers(monkeypatch: pytest.MonkeyPatch, *rounds: tuple[str, ...]) -> list[str]:
    """A resolver that says these addresses, one round at each question; the names asked for."""
    asked: list[str] = []

    def resolve(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        found = rounds[min(len(asked), len(rounds) - 1)]
        asked.append(host)
        return [
            (socket.AF_INET6 if ":" in one else socket.AF_INET, 1, 6, "", (one, port))
            for one in found
        ]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return asked


@pytest.mark.parametrize("text", [one for one in INSIDE if not one.startswith("fe")])
@pytest.mark.parametrize("beside", [(), ("8.8.8.8",)], ids=["alone", "beside one outside"])
async def test_a_name_for_an_address_inside(
    text: str, beside: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answers(monkeypatch, (*beside, text))
    with pytest.raises(InvalidRequest, match=r"inside of this site.*c\.X\.hosts") as caught:
        await destination("evil.example.org", 443, [], setting="c.X.hosts", field="source")
    assert caught.value.field == "source"
    assert asked == ["evil.example.org"]


@pytest.mark.parametrize(
    ("entry", "passes"),
    [
        ("git.example.org", True),
        ("GIT.example.org", True),
        ("git.example.org:8443", True),
        (".example.org", True),
        (".example.org:8443", True),
        ("10.1.2.3", True),
        ("10.1.0.0/16", True),
        ("10.1.2.3:8443", True),
        ("git.example.org:443", False),
        ("example.org", False),
        (".git.example.org", False),
        ("git.example", False),
        ("it.example.org", False),
        ("evil-git.example.org", False),
        ("10.2.0.0/16", False),
        ("10.1.2.3:443", False),
        ("", False),
        (".", False),
        ("*", False),
        ("::/0", False),
        ("[::1]:8443", False),
    ],
)
async def test_what_a_site_allows(
    entry: str, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, ("10.1.2.3",))
    assert allows(entry, "git.example.org", 8443, ip_address("10.1.2.3")) is passes
    if passes:
        found = await destination("git.example.org.", 8443, [entry], setting="", field="source")
        assert found == ("git.example.org", 8443, ("10.1.2.3",))


def test_an_ipv6_server_on_one_port() -> None:
    assert allows("[::1]:5000", "x", 5000, ip_address("::1"))
    assert not allows("[::1]:5000", "x", 5001, ip_address("::1"))


# -- with git itself -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    root = tmp_path_factory.mktemp("served")
    repository = Repository(root / "course")
    repository.write("a.txt", "a\n")
    repository.commit()
    with serve(root) as found:
        yield found


@pytest.fixture
async def repository(tmp_path: Path) -> Git:
    made = Git(tmp_path / "courses" / "dl101" / "handouts.git", 8, "https:http")
    await made.make()
    return made


def port_of(server: GitServer) -> int:
    return int(server.url.rpartition(":")[2])


async def test_git_asks_the_address_that_was_looked_at(
    server: GitServer, repository: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that no resolver here knows: git reaches it by what it was told alone. So a second
    answer of DNS counts for nothing."""
    asked = answers(monkeypatch, ("127.0.0.1",), ("8.8.8.8",))
    port = port_of(server)
    allowed = [f"git.example.test:{port}"]
    await fetch(repository, f"http://git.example.test:{port}/course", "main", 30, allowed)
    assert await repository.revision(REFERENCE)
    assert asked == ["git.example.test"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("chain", [1, 2])
async def test_git_follows_no_redirect(
    server: GitServer, repository: Git, status: int, chain: int
) -> None:
    """From a server that may be asked to one that may not; the Hub's API would be the second."""
    hops = []

    def redirect(handler: QuietHandler) -> None:
        hops.append(handler.path)
        where = "/course/info/refs" if len(hops) >= chain else "/again/info/refs"
        handler.send_response(status)
        handler.send_header("Location", f"http://127.0.0.2:{port_of(server)}{where}")
        handler.end_headers()

    server.instead = redirect
    try:
        with pytest.raises(GitFailed, match="redirects to another address"):
            await fetch(repository, f"{server.url}/course", "", 30, ["127.0.0.1"])
    finally:
        server.instead = None
    assert len(hops) == 1


@pytest.mark.parametrize("name", ["localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1"])
async def test_git_is_not_even_started(server: GitServer, repository: Git, name: str) -> None:
    server.asked.clear()
    with pytest.raises(InvalidRequest, match=r"inside.*c\.Courses\.internal_hosts"):
        await fetch(repository, f"http://{name}:{port_of(server)}/course", "", 30)
    assert server.asked == []


async def test_alternates_of_a_dumb_server_lead_nowhere(server: GitServer, repository: Git) -> None:
    """Such a server names others that have its objects (gitprotocol-http(5))."""
    asked = []

    def dumb(handler: QuietHandler) -> None:
        asked.append((handler.headers["Host"], handler.path))
        body = b""
        if handler.path.startswith("/x/info/refs"):
            body = b"a" * 40 + b"\trefs/heads/main\n"
        elif handler.path.endswith("alternates"):
            body = f"http://127.0.0.2:{port_of(server)}/course/objects\n".encode()
        handler.send_whole(200 if body else 404, body, "text/plain")

    server.instead = dumb
    try:
        with pytest.raises(GitFailed):
            await fetch(repository, f"{server.url}/x", "main", 30, ["127.0.0.1"])
    finally:
        server.instead = None
    assert {host for host, _ in asked} == {f"127.0.0.1:{port_of(server)}"}


@pytest.mark.parametrize(
    ("to", "words"),
    [
        (Destination("a.org", 443, ("1.1.1.1",)), "a.org:443:1.1.1.1"),
        (Destination("a.org", 8443, ("1.1.1.1", "2::1")), "a.org:8443:1.1.1.1,[2::1]"),
        (Destination("1.1.1.1", 443, ("1.1.1.1",)), ""),
        (Destination("a.org", 443, ()), ""),
    ],
)
def test_what_git_is_told(to: Destination, words: str) -> None:
    assert pinned(to) == (("-c", f"http.curloptResolve={words}") if words else ())


async def test_a_proxy_resolves_what_this_machine_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)

    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(InvalidRequest, match="cannot be found"):
        await destination("github.com", 443, [], setting="c.X", field="source")
    monkeypatch.setenv("https_proxy", "http://proxy.example.org:3128")
    found = await destination("github.com", 443, [], setting="c.X", field="source")
    assert found.addresses == ()
    monkeypatch.setenv("no_proxy", "github.com")
    with pytest.raises(InvalidRequest, match="cannot be found"):
        await destination("github.com", 443, [], setting="c.X", field="source")
