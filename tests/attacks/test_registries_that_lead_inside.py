"""A registry leads whoever asks it to the Hub's API: by redirects, by the place of its tokens. It
runs on loopback, as the Hub does, which counts who comes; skopeo is real."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from quiet_http import QuietHandler, serving
from test_images_registry import stored

from portal.addresses import InsideRefused
from portal.errors import PortalError
from portal.images.registry.credentials import Secrets
from portal.images.registry.guard import Guard, places
from portal.images.registry.registry import Registries
from portal.models.catalog.image import parse_source

PASSWORD = "nvapi-of-the-site"
MANIFEST = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": f"sha256:{'a' * 64}",
            "size": 2,
        },
        "layers": [],
    }
).encode()


class Server(NamedTuple):
    """A server of a test. ``asked``: the requests that came, with their headers."""

    port: int
    asked: list[str]
    lead: dict[str, str]


class _Handler(QuietHandler):
    server: Any

    def do_GET(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}\n{self.headers}")
        lead = self.server.lead
        if lead.get("realm") and "Bearer" not in (self.headers.get("Authorization") or ""):
            self.send_response(401)
            challenge = f'Bearer realm="{lead["realm"]}",service="x",scope="y"'
            self.send_header("WWW-Authenticate", challenge)
        elif lead.get("ping") and self.path == "/v2/":
            self.send_response(302)
            self.send_header("Location", lead["ping"])
        elif lead.get("manifest") and "/manifests/" in self.path:
            self.send_response(int(lead.get("status", "307")))
            self.send_header("Location", lead["manifest"])
        elif lead.get("blob") and "/blobs/" in self.path:
            self.send_response(307)
            self.send_header("Location", lead["blob"])
        elif "/manifests/" in self.path:
            self.send_whole(200, MANIFEST, "application/vnd.oci.image.manifest.v1+json")
            return
        else:
            self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_POST = do_GET


@contextlib.contextmanager
def leading(address: str = "127.0.0.1") -> Iterator[Server]:
    with serving(_Handler, address) as server:
        server.asked, server.lead = [], {}  # type: ignore[attr-defined]
        yield Server(server.server_port, server.asked, server.lead)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def hub() -> Iterator[Server]:
    with leading() as found:
        yield found


@pytest.fixture
def evil() -> Iterator[Server]:
    with leading() as found:
        yield found


@pytest.fixture
def registries(tmp_path: Path) -> Registries:
    secrets = Secrets(key_file=str(tmp_path / "key"), password_directory=str(tmp_path))
    return Registries(secrets=secrets, timeout=60)


async def led(registries: Registries, evil: Server, hub: Server, *, password: bool = False) -> str:
    """What the person reads. The Hub was not asked, and no password has gone anywhere else."""
    hub.asked.clear()
    host = f"127.0.0.1:{evil.port}"
    secret = registries.secrets.encrypt(PASSWORD) if password else ""
    row = stored(host, secret, insecure=True)
    with pytest.raises(PortalError) as caught:
        await registries.resolve(parse_source(f"docker://{host}/a/b:1"), [row])
    assert evil.asked, f"the registry itself is asked: {caught.value.message}"
    assert hub.asked == []
    return caught.value.message


HOSTS = (
    "127.0.0.1", "127.0.0.2", "127.1.2.3", "localhost", "LOCALHOST", "localhost.", "127.1",
    "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "0", "[::1]", "[::]",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "evil.example.test", "user@127.0.0.1",
    "127.0.0.1.", "localhost.localdomain", "ip6-localhost",
)  # fmt: skip


@pytest.fixture(autouse=True)
def resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that somebody's DNS gives an address of loopback."""
    real = socket.getaddrinfo

    def resolve(host: Any, *words: Any, **more: Any) -> Any:
        return real("127.0.0.1" if host == "evil.example.test" else host, *words, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("how", ["realm", "manifest"])
async def test_the_hub_is_not_asked(
    registries: Registries, evil: Server, hub: Server, host: str, how: str
) -> None:
    evil.lead[how] = f"http://{host}:{hub.port}/hub/api/users"
    said = await led(registries, evil, hub, password=how == "realm")
    assert PASSWORD not in said and "hub/api" not in said


@pytest.mark.parametrize("how", ["ping", "blob"])
@pytest.mark.parametrize("host", ["127.0.0.1", "evil.example.test"])
async def test_nor_for_anything_else(
    registries: Registries, evil: Server, hub: Server, host: str, how: str
) -> None:
    evil.lead[how] = f"http://{host}:{hub.port}/hub/api/users"
    await led(registries, evil, hub)


@pytest.mark.parametrize("status", ["301", "302", "303", "307", "308"])
async def test_each_kind_of_redirect(
    registries: Registries, evil: Server, hub: Server, status: str
) -> None:
    evil.lead.update({"manifest": f"http://evil.example.test:{hub.port}/hub/api", "status": status})
    said = await led(registries, evil, hub)
    assert "inside of this site (loopback)" in said and "c.Registries.internal_hosts" in said


async def test_a_chain_that_ends_at_the_hub(
    registries: Registries, evil: Server, hub: Server
) -> None:
    with leading() as second:
        second.lead["manifest"] = f"http://127.0.0.1:{hub.port}/hub/api"
        evil.lead["manifest"] = f"http://127.0.0.1:{second.port}/v2/a/b/manifests/1"
        await led(registries, evil, hub)
        assert second.asked == [], "another port of loopback is another server"
        registries.internal_hosts = [f"127.0.0.1:{second.port}"]
        await led(registries, evil, hub)
        assert second.asked


async def test_what_a_site_allows_is_asked(
    registries: Registries, evil: Server, hub: Server
) -> None:
    registries.internal_hosts = [f"evil.example.test:{hub.port}"]
    hub.asked.clear()
    evil.lead["manifest"] = f"http://evil.example.test:{hub.port}/v2/a/b/manifests/1"
    host = f"127.0.0.1:{evil.port}"
    row = stored(host, registries.secrets.encrypt(PASSWORD), insecure=True)
    with pytest.raises(PortalError):  # its digest is none
        await registries.resolve(parse_source(f"docker://{host}/a/b:1"), [row])
    assert hub.asked and not any("Authorization" in one for one in hub.asked)


# -- the guard by itself ---------------------------------------------------------------------------


def answers(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Each look at a name gives the next of ``addresses``, and the last one from then on; where
    connections were made to."""
    left, connected = list(addresses), []

    def look(host: str, port: int, *_: object, **__: object) -> list[Any]:
        address = left.pop(0) if len(left) > 1 else left[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    def connect(to: tuple[str, int], *_: object) -> str:
        connected.append(to[0])
        return "connected"

    monkeypatch.setattr(socket, "getaddrinfo", look)
    monkeypatch.setattr(socket, "create_connection", connect)
    return connected


@pytest.mark.parametrize("then", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "0.0.0.0"])
@pytest.mark.parametrize("registry", ["evil.example.test:8081", "evil.example.test"])
def test_a_registry_that_is_this_machine_at_the_second_look(
    registry: str, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sends its first request to itself, /hub/api/users, and its name means the Hub by then."""
    connected = answers(monkeypatch, "1.1.1.1", then)
    guard = Guard([registry], [])
    port = registry.partition(":")[2] or "80"
    for path in ("/v2/", "/hub/api/users", "/latest/meta-data/"):
        guard._opened(f"GET http://evil.example.test:{port}{path} HTTP/1.1\r\n")
    guard._opened(f"CONNECT EVIL.example.test.:{port} HTTP/1.1\r\n")
    assert connected == ["1.1.1.1"] * 4


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "169.254.170.2", "fe80::1", "::ffff:169.254.169.254", "::169.254.169.254",
     "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"],
)  # fmt: skip
@pytest.mark.parametrize("named", ["by its address", "by a name"])
def test_a_registry_that_is_a_clouds_metadata(
    address: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = answers(monkeypatch, address)
    host = "evil.example.test"
    if named == "by its address":
        host = f"[{address}]" if ":" in address else address
    guard = Guard([f"{host.strip('[]')}:80"], [])
    with pytest.raises(InsideRefused, match="link-local"):
        guard._opened(f"GET http://{host}:80/v2/ HTTP/1.1\r\n")
    assert connected == []
    Guard([f"{host.strip('[]')}:80"], [address])._opened(f"CONNECT {host}:80 HTTP/1.1\r\n")
    assert connected == [address]


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "169.254.169.254", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1",
     "0.0.0.0", "224.0.0.1", "::1", "fe80::1", "fd00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"],
)  # fmt: skip
@pytest.mark.parametrize("form", ["CONNECT {} HTTP/1.1\r\n", "GET http://{}/x HTTP/1.1\r\n"])
def test_the_guard_connects_to_nothing_inside(address: str, form: str) -> None:
    guard = Guard(["1.1.1.1"], [])
    host = f"[{address}]:8081" if ":" in address else f"{address}:8081"
    with pytest.raises(InsideRefused):
        guard._opened(form.format(host))


@pytest.mark.parametrize(
    "head",
    ["", "CONNECT", "CONNECT  HTTP/1.1", "CONNECT a HTTP/1.1", "CONNECT a:b HTTP/1.1",
     "CONNECT a:99999 HTTP/1.1", "CONNECT u@127.0.0.1:1 HTTP/1.1", "CONNECT [::1%lo]:1 HTTP/1.1",
     "CONNECT a:1:2 HTTP/1.1", "CONNECT /x:1 HTTP/1.1", "GET / HTTP/1.1", "GET x HTTP/1.1",
     "GET file:///etc/passwd HTTP/1.1", "GET https://a/ HTTP/1.1", "GET ftp://a/ HTTP/1.1",
     "GET http:///x HTTP/1.1", "GET http://a%31/ HTTP/1.1", "GET http://１２７.0.0.1/ HTTP/1.1",  # noqa: RUF001
     "GET http://$(id)/ HTTP/1.1"],
)  # fmt: skip
def test_requests_that_are_none(head: str) -> None:
    with pytest.raises(InsideRefused):
        Guard(["1.1.1.1"], [])._opened(f"{head}\r\n")


@pytest.mark.parametrize(
    ("registry", "found"),
    [
        ("nvcr.io", {("nvcr.io", 443), ("nvcr.io", 80)}),
        ("NVCR.io:5000", {("nvcr.io", 5000)}),
        ("127.0.0.1:5000", {("127.0.0.1", 5000)}),
    ],
)
def test_where_a_registry_is(registry: str, found: set[tuple[str, int]]) -> None:
    assert places(registry) == found


@pytest.mark.parametrize(
    ("registry", "allowed", "reached"),
    [
        ("10.1.2.3", [], True),  # a private registry leads to a private place
        ("1.1.1.1", [], False),
        ("127.0.0.1:5000", [], False),
        ("169.254.1.1", [], False),
        ("1.1.1.1", ["10.9.9.9"], True),
        ("1.1.1.1", ["10.9.0.0/16"], True),
    ],
)
def test_where_a_private_registry_may_lead(
    registry: str, allowed: list[str], reached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: "connected")
    guard = Guard([registry], allowed)
    for host in ("127.0.0.1:8081", "169.254.169.254:80"):
        with pytest.raises(InsideRefused):
            guard._opened(f"CONNECT {host} HTTP/1.1\r\n")
    if reached:
        assert guard._opened("CONNECT 10.9.9.9:443 HTTP/1.1\r\n")[0] == "connected"
    else:
        with pytest.raises(InsideRefused):
            guard._opened("CONNECT 10.9.9.9:443 HTTP/1.1\r\n")
