"""Getting the host of somebody else's session by a choice of names, and by a route of the proxy.

A host is an origin: with one of two owners, the pages of one read what the other's session shows.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from jupyterhub.proxy import ConfigurableHTTPProxy
from jupyterhub.utils import _trim_and_hash

from portal.errors import StartFailed
from spawners.config.proxy import SessionProxy
from spawners.web.domains import host_of, host_of_server

DOMAIN = "hub.example.org"
PEOPLE = [
    "ada", "grace", "Ada", "ADA", "ada ", " ada", "ada.grace", "ada--grace", "ada-grace", "-ada",
    "ada-", "portal", "hub", "hub.example.org", "grafana--service", "portal--service", "jürgen",
    "JÜRGEN", "juergen", "xn--jrgen-kva", "straße", "strasse", "12345", "1e3", "127.0.0.1",
    "x" * 63, "x" * 64, "x" * 65, "u-ada--0", "s-course-deep--0", "ada@example.org", "ada_grace",
    "ada grace", "course-deep", "course-deep barbara", "barbara course-deep", "ada\u200b",
    "\u0430da", "a", "0", "%",
]  # fmt: skip
SERVERS = [
    "course-deep", "course-deep-1", "course-Deep", "room-deep", "preview-deep", "rehearsal-deep",
    "course-a b", "course-a", "course-" + "x" * 60, "course-" + "x" * 61, "course-ü", "course-u",
]  # fmt: skip
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def _made(person: str, server: str = "") -> str:
    return (
        host_of_server(person, server, DOMAIN) if server else host_of(person, DOMAIN, kind="user")
    )


HOSTS = {
    (person, server): _made(person, server)
    for person, server in itertools.product(PEOPLE, ["", *SERVERS])
}


@pytest.mark.parametrize("person", PEOPLE)
def test_a_host_is_nobody_elses(person: str) -> None:
    own = [host for (name, _), host in HOSTS.items() if name == person]
    others = {host for (name, _), host in HOSTS.items() if name != person}
    services = {host_of(name, DOMAIN, kind="service") for name in ("portal", "grafana", "ada")}
    assert len(set(own)) == len(own)
    assert not set(own) & (others | services)
    for host in own:
        label, _, rest = host.partition(".")
        assert rest == DOMAIN and _LABEL.fullmatch(label)


@pytest.mark.parametrize("person", PEOPLE)
def test_nobody_logs_in_by_the_name_of_a_host(person: str) -> None:
    """Whoever is called as a made label has another host."""
    label = HOSTS[person, "course-deep"].partition(".")[0]
    assert host_of(label, DOMAIN, kind="user") != HOSTS[person, "course-deep"]
    label = HOSTS[person, ""].partition(".")[0]
    if label != person:
        assert host_of(label, DOMAIN, kind="user") != HOSTS[person, ""]


def test_a_search_of_names_finds_nothing() -> None:
    """JupyterHub's 28 bits: among 50,000 names of courses two have one label; here none."""
    servers = [f"course-{number}" for number in range(50_000)]
    assert len({_trim_and_hash(f"{server} barbara") for server in servers}) <= len(servers)
    theirs = {_trim_and_hash(f"{server} x").rpartition("--")[2] for server in servers}
    ours = {host_of_server("x", server, DOMAIN).partition(".")[0][-32:] for server in servers}
    assert len(theirs) < len(servers) == len(ours)


class Proxy(SessionProxy):
    """A proxy whose program takes every route."""


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Any:
    table: dict[str, Any] = {}

    async def add_route(_: Any, routespec: str, target: str, data: Any) -> None:
        table[routespec] = {"routespec": routespec, "target": target, "data": dict(data)}

    async def delete_route(_: Any, routespec: str) -> None:
        table.pop(routespec)

    async def get_all_routes(_: Any) -> Any:
        return dict(table)

    monkeypatch.setattr(ConfigurableHTTPProxy, "add_route", add_route)
    monkeypatch.setattr(ConfigurableHTTPProxy, "delete_route", delete_route)
    monkeypatch.setattr(ConfigurableHTTPProxy, "get_all_routes", get_all_routes)
    made = Proxy()
    made.table = table  # type: ignore[attr-defined]
    return made


def _data(person: str, server: str = "") -> dict[str, str]:
    return {"user": person, "server_name": server}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("ada", ""), ("mallory", "")),
        (("ada", "two"), ("mallory", "")),
        (("ada", "course-deep"), ("mallory", "course-mine")),
        (("ada", "course-deep"), ("ada", "course-other")),
        (("ada", "course-deep"), ("ada", "")),
        (("ada", ""), ("ada", "room-deep")),
        (("ada", "preview-deep"), ("mallory", "")),
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
async def test_the_proxy_refuses_a_second_owner(
    proxy: Any, first: tuple[str, str], second: tuple[str, str], restarted: bool
) -> None:
    host = f"one.{DOMAIN}"
    await proxy.add_route(f"{host}/user/{first[0]}/", "http://127.0.0.1:1", _data(*first))
    if restarted:  # the Hub knows the routes from the proxy alone
        proxy._owners = {}
        await proxy.get_all_routes()
    with pytest.raises(StartFailed, match="belongs to another"):
        await proxy.add_route(f"{host}/user/x/", "http://127.0.0.1:2", _data(*second))
    assert list(proxy.table) == [f"{host}/user/{first[0]}/"]
    await proxy.delete_route(f"{host}/user/{first[0]}/")
    await proxy.add_route(f"{host}/user/x/", "http://127.0.0.1:2", _data(*second))


async def test_a_persons_sessions_share_their_host(proxy: Any) -> None:
    host = f"ada.{DOMAIN}"
    for server in ("", "two", "three"):
        spec = f"{host}/user/ada/{server}"
        await proxy.add_route(spec, "http://127.0.0.1:1", _data("ada", server))
        await proxy.add_route(spec, "http://127.0.0.1:2", _data("ada", server))  # moved
    await proxy.add_route("/", "http://127.0.0.1:3", {"hub": True})
    await proxy.add_route("/services/x/", "http://127.0.0.1:4", {"service": "x"})
    assert len(proxy.table) == 5
