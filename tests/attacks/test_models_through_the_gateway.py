"""Attacks on served models: requests that are read in two ways, bodies and callers without end,
neighbours on the replica's node."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from gateway_site import NAME, GatewaySite, raw_request, until

from portal.gateway.keys import client_context, ensure_identity


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site() -> AsyncIterator[GatewaySite]:
    with tempfile.TemporaryDirectory(prefix="gw-") as folder:
        site = GatewaySite(
            Path(folder), "server.HEAD = 2", "bodies._PATIENCE = 2", "forwarding._STALLED = 2"
        )
        await site.start()
        try:
            await site.add_replica("a")
            await site.serve("a", limits={"body": 3 * 1024 * 1024, "in_flight": 100})
            yield site
        finally:
            await site.stop()


def head(site: GatewaySite, *lines: str, first: str = "", path: str = "/v1/x") -> bytes:
    first = first or f"POST /services/portal/models/{NAME}{path} HTTP/1.1"
    token = f"Authorization: Bearer {site.token}"
    return "\r\n".join([first, "Host: hub", token, *lines, "", ""]).encode("latin-1")


SMUGGLED = b"GET /admin HTTP/1.1\r\nHost: x\r\n\r\n"
TWO_WAYS = {
    "both lengths": ["Content-Length: 5", "Transfer-Encoding: chunked"],
    "both, other order": ["Transfer-Encoding: chunked", "Content-Length: 5"],
    "two lengths": ["Content-Length: 0", "Content-Length: 35"],
    "two equal lengths": ["Content-Length: 5", "Content-Length: 5"],
    "list of lengths": ["Content-Length: 5, 5"],
    "signed length": ["Content-Length: +5"],
    "hexadecimal length": ["Content-Length: 0x5"],
    "length with space before colon": ["Content-Length : 5"],
    "other coding": ["Transfer-Encoding: gzip, chunked"],
    "hidden coding": ["Transfer-Encoding: \x0bchunked"],
    "coding twice": ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
    "folded header": ["X: a\r\n Transfer-Encoding: chunked", "Content-Length: 5"],
    "bare line feed": ["X: a\nTransfer-Encoding: chunked", "Content-Length: 5"],
    "bare carriage return": ["X: a\rContent-Length: 0", "Content-Length: 5"],
    "null in value": ["X: a\x00b", "Content-Length: 5"],
    "space in name": ["X Y: b", "Content-Length: 5"],
    "two hosts": ["Host: other", "Content-Length: 5"],
    "upgrade": ["Connection: upgrade", "Upgrade: h2c", "Content-Length: 0"],
    "websocket": ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"],
}


@pytest.mark.parametrize("kind", TWO_WAYS)
async def test_requests_that_can_be_read_in_two_ways(site: GatewaySite, kind: str) -> None:
    before = (await site.ask_state())["models"][NAME]["requests"]
    data = head(site, *TWO_WAYS[kind]) + b"0\r\n\r\n" + SMUGGLED
    received = await asyncio.to_thread(raw_request, site.port, data)
    assert received.count(b"HTTP/1.") == 1, received
    assert received.split(b" ")[1] == b"400", received
    assert b'{"error": {"message": ' in received and b"Traceback" not in received
    assert (await site.ask_state())["models"][NAME]["requests"] == before


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_what_is_no_request(site: GatewaySite, data: bytes) -> None:
    received = await asyncio.to_thread(raw_request, site.port, data + b"\r\n" * 3)
    assert not received or received.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), received


async def test_heads_that_are_too_large(site: GatewaySite) -> None:
    for lines in (["X: " + "a" * 40_000], [f"X{n}: a" for n in range(500)]):
        received = await asyncio.to_thread(raw_request, site.port, head(site, *lines))
        assert received.split(b" ")[1] == b"400", received[:200]


async def test_broken_chunks_are_refused(site: GatewaySite) -> None:
    for chunks in (b"zz\r\n", b"5;x=\x00\r\nhello\r\n0\r\n\r\n", b"-1\r\n\r\n", b"5\nhello0\n\n"):
        data = head(site, "Transfer-Encoding: chunked") + chunks
        received = await asyncio.to_thread(raw_request, site.port, data)
        assert received.split(b" ")[1] == b"400", (chunks, received)


async def test_trailers_do_not_become_headers(site: GatewaySite) -> None:
    data = head(site, "Transfer-Encoding: chunked", "Connection: close", "Trailer: X-Portal-User")
    data += b"2\r\nhi\r\n0\r\nX-Portal-User: root\r\n\r\n"
    received = await asyncio.to_thread(raw_request, site.port, data)
    assert b"root" not in received


async def test_a_body_without_end_is_refused_at_the_limit(site: GatewaySite) -> None:
    def send() -> int:
        sent = 0
        with socket.create_connection(("127.0.0.1", site.port), timeout=20) as connection:
            connection.sendall(head(site, "Transfer-Encoding: chunked"))
            with contextlib.suppress(OSError):
                while sent < 64 * 1024 * 1024:
                    connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                    sent += 65536
        return sent

    assert await asyncio.to_thread(send) < 32 * 1024 * 1024
    await until_free(site)


async def test_a_head_that_never_ends_is_cut(site: GatewaySite) -> None:
    def trickle() -> float:
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", site.port), timeout=30) as connection:
            with contextlib.suppress(OSError):
                connection.sendall(b"GET /services/portal/models/echo/ HTTP/1.1\r\n")
                while time.monotonic() - began < 20:
                    connection.sendall(b"X: y\r\n")
                    connection.settimeout(0.2)
                    with contextlib.suppress(TimeoutError):
                        if not connection.recv(100):
                            break
        return time.monotonic() - began

    assert await asyncio.to_thread(trickle) < 12


async def test_a_body_that_trickles_holds_no_replica(site: GatewaySite) -> None:
    async def seen() -> int:
        return int((await site.ask_state())["models"][NAME]["in_flight"])

    def trickle() -> bytes:
        with socket.create_connection(("127.0.0.1", site.port), timeout=1) as connection:
            connection.sendall(head(site, "Content-Length: 1000"))
            for _ in range(40):
                with contextlib.suppress(TimeoutError):
                    connection.sendall(b"x")
                    connection.settimeout(0.2)
                    if part := connection.recv(65536):
                        return part
        return b""

    trickling = asyncio.create_task(asyncio.to_thread(trickle))
    await asyncio.sleep(1)
    assert await seen() == 0
    assert (await trickling).startswith(b"HTTP/1.1 408")


async def test_a_caller_that_does_not_read_is_cut_and_the_program_is_freed(
    site: GatewaySite,
) -> None:
    log = site.folder / "flood"
    path = f"/flood?log={log}"
    reading = socket.create_connection(("127.0.0.1", site.port), timeout=20)
    with reading:
        first = f"GET /services/portal/models/{NAME}{path} HTTP/1.1"
        reading.sendall(head(site, first=first))
        assert await asyncio.to_thread(reading.recv, 100)
        await until(log.exists)  # the program was told to stop
        sent = int(log.read_text())
    assert sent < 64 * 1024 * 1024, "the answer was held in memory"
    await until_free(site)
    state = (await site.ask_state())["models"][NAME]
    assert not state["replicas"]["a"]["errors_in_a_row"], "the replica was blamed"


async def test_one_user_cannot_take_all(site: GatewaySite) -> None:
    headers, connector = site.headers(), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:

        async def ask() -> int:
            async with session.get(site.url("/slow?seconds=2")) as response:
                return response.status

        statuses = await asyncio.gather(*(ask() for _ in range(230)))
    assert statuses.count(429) == 30 and set(statuses) == {200, 429}


@pytest.mark.parametrize("kind", ["none", "own", "plain text"])
async def test_a_neighbour_does_not_get_past_the_replicas_listener(
    site: GatewaySite, kind: str, tmp_path: Path
) -> None:
    port = site.reports["a"]["port"]
    certificate = site.reports["a"]["certificate"]
    if kind == "own":
        tls = client_context(ensure_identity(tmp_path), certificate)
    else:
        tls = ssl.create_default_context(cadata=certificate)
        tls.check_hostname = False

    def ask() -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
            connection = plain if kind == "plain text" else tls.wrap_socket(plain)
            with connection:
                connection.sendall(b"GET /v1/x HTTP/1.1\r\nHost: x\r\nX-Portal-User: root\r\n\r\n")
                return connection.recv(1000)

    try:
        received = await asyncio.to_thread(ask)
    except OSError:
        received = b""
    assert b"HTTP/1.1" not in received


async def test_half_open_handshakes_do_not_keep_the_gateway_out(site: GatewaySite) -> None:
    port = site.reports["a"]["port"]
    strangers = [
        socket.create_connection(("127.0.0.1", port), timeout=5, source_address=("127.0.0.2", 0))
        for _ in range(700)
    ]
    try:
        fresh = site.add_user("fresh")
        site.models[NAME]["everyone"] = True
        await site.write_routes()
        async with aiohttp.ClientSession(headers=site.headers(fresh)) as session:

            async def ask() -> int:
                async with session.get(site.url("/slow?seconds=0.3")) as response:
                    return response.status

            # Many at once, so that new connections to the replica are made.
            assert await asyncio.gather(*(ask() for _ in range(30))) == [200] * 30
        assert sum(map(is_cut, strangers)) >= 150, "the replica holds them all"
    finally:
        for stranger in strangers:
            stranger.close()


async def test_the_socket_of_the_program_is_its_owners_alone(site: GatewaySite) -> None:
    (path,) = site.folder.glob("portal-ep-*/socket")
    assert path.parent.stat().st_mode & 0o077 == 0
    environ = Path(f"/proc/{site.replicas['a'].pid}/cmdline").read_bytes()
    assert b"PRIVATE KEY" not in environ and b"token" not in environ


def is_cut(connection: socket.socket) -> bool:
    """Return True if the other side has closed it."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


async def until_free(site: GatewaySite) -> None:
    """Wait until no request is at a replica."""
    for _ in range(100):
        if not (await site.ask_state())["models"][NAME]["in_flight"]:
            return
        await asyncio.sleep(0.1)
    pytest.fail("a replica is still held")
