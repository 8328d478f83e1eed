"""Messages between relay and starter arrive in order and once, however often they are cut."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable

import pytest
from portal_session.job_kernels.wire import link as links
from portal_session.job_kernels.wire.frames import DATA, HEAD
from portal_session.job_kernels.wire.keys import context, make_keys
from portal_session.job_kernels.wire.link import BadFrame, Link, pack, unpack


async def _connected(
    one: Link,
    other: Link,
    cut_after: Callable[[asyncio.StreamWriter], None] | None = None,
    tls: bool = False,
) -> list[asyncio.Task[None]]:
    """Connect two links over TCP on loopback; return the tasks that carry."""
    keys = make_keys()
    theirs_tls, mine_tls = (context(*keys, server=end) if tls else None for end in (True, False))
    accepted: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    accepted = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set_result((reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=theirs_tls)
    port = server.sockets[0].getsockname()[1]
    mine = await asyncio.open_connection("127.0.0.1", port, ssl=mine_tls)
    theirs = await accepted
    server.close()
    if cut_after is not None:
        cut_after(mine[1])
    return [
        asyncio.ensure_future(one.carry(*mine, other.received)),
        asyncio.ensure_future(other.carry(*theirs, one.received)),
    ]


async def test_both_ways_over_connections_that_are_cut_at_random() -> None:
    chance = random.Random(7)
    here: list[bytes] = []
    there: list[bytes] = []
    one, other = Link(here.append), Link(there.append)
    sent = [b"%d" % number * chance.randint(0, 5000) for number in range(400)]
    left = list(sent)
    while left or one.waiting or other.waiting:
        carrying = await _connected(one, other)
        for message in left[:40]:
            one.send(message)
            other.send(message)
        del left[:40]
        if chance.random() < 0.7:
            await asyncio.sleep(chance.random() * 0.01)
            carrying[chance.randint(0, 1)].cancel()
        else:
            await one.flushed(5)
            await other.flushed(5)
            carrying[0].cancel()
        await asyncio.gather(*carrying, return_exceptions=True)
    assert (here, there) == (sent, sent)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_signs_of_life_and_acknowledgements_come_between_long_messages(
    monkeypatch: pytest.MonkeyPatch, tls: bool
) -> None:
    monkeypatch.setattr(links, "PING", 0.001)
    monkeypatch.setattr(links, "PART", 4096)
    here: list[bytes] = []
    there: list[bytes] = []
    one, other = Link(here.append), Link(there.append)
    sent = [bytes([number]) * 3_000_000 for number in range(8)]
    for message in sent:
        one.send(message)
        other.send(message)
    carrying = await _connected(one, other, tls=tls)
    assert await one.flushed(30) and await other.flushed(30)
    assert (here, there) == (sent, sent)
    carrying[0].cancel()
    await asyncio.gather(*carrying, return_exceptions=True)


async def test_a_sender_waits_while_much_is_not_received(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "FULL", 1000)
    one, other = Link(lambda _: None), Link(lambda _: None)
    one.send(b"x" * 2000)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(one.room(), 0.05)
    carrying = await _connected(one, other)
    await asyncio.wait_for(one.room(), 5)
    carrying[0].cancel()
    await asyncio.gather(*carrying, return_exceptions=True)


async def test_a_silent_connection_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "PING", 0.02)
    monkeypatch.setattr(links, "SILENCE", 0.1)
    silent = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.wait_for(Link(lambda _: None).carry(reader, writer, 0), 5)
    silent.close()


async def test_what_was_read_with_the_greeting_is_not_lost() -> None:
    here: list[bytes] = []
    one = Link(here.append)
    frame = HEAD.pack(5, DATA, 1) + b"early"
    accepted: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while not accepted:
        await asyncio.sleep(0)
    accepted[0].write(b"greeting\n" + frame + frame[:7])
    assert await reader.readline() == b"greeting\n"
    carrying = asyncio.ensure_future(one.carry(reader, writer, 0))
    await asyncio.sleep(0.05)
    accepted[0].write(frame[7:13] + b"again")  # the same number: it was received
    accepted[0].write(HEAD.pack(3, DATA, 2) + b"new")
    accepted[0].close()
    await asyncio.wait_for(carrying, 5)
    assert here == [b"early", b"new"]
    server.close()


async def test_a_connection_that_is_lost_already_ends() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await reader.read()
    await asyncio.wait_for(Link(lambda _: None).carry(reader, writer, 0), 5)
    server.close()


@pytest.mark.parametrize(
    "words", [b"GET / HTTP/1.1\r\n\r\n", HEAD.pack(1 << 31, DATA, 1), HEAD.pack(0, 9, 0)]
)
async def test_bytes_that_are_no_frame_are_an_error(words: bytes) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.write(words), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with pytest.raises(BadFrame, match="an unknown frame"):
        await asyncio.wait_for(Link(lambda _: None).carry(reader, writer, 0), 5)
    server.close()


async def test_a_message_that_is_missing_is_an_error() -> None:
    one, other = Link(lambda _: None), Link(lambda _: None)
    one.send(b"first")
    one._unsent.clear()
    one.send(b"second")
    carrying = await _connected(one, other)
    with pytest.raises(BadFrame, match="message 2 after 0"):
        await asyncio.wait_for(carrying[1], 5)
    carrying[0].cancel()


@pytest.mark.parametrize("frames", [[], [b""], [b"a", b"", b"c" * 1000]])
def test_frames_are_packed_and_unpacked(frames: list[bytes]) -> None:
    assert unpack(pack(frames, b"s"), 1) == frames


@pytest.mark.parametrize("message", [b"\0", b"\0\0\0\x05ab", b"\xff\xff\xff\xff"])
def test_a_message_that_is_cut_is_an_error(message: bytes) -> None:
    with pytest.raises(BadFrame):
        unpack(message)


async def _greeted(server: ssl.SSLContext, client: ssl.SSLContext) -> bytes:
    """Return what a TLS client reads from a server that says hello."""

    async def hello(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    listening = await asyncio.start_server(hello, "127.0.0.1", 0, ssl=server)
    port = listening.sockets[0].getsockname()[1]
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        said = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        return said
    finally:
        listening.close()


async def test_only_the_kernels_own_keys_open_a_connection() -> None:
    own, other = make_keys(), make_keys()
    server = context(*own, server=True)
    assert await _greeted(server, context(*own, server=False)) == b"hello"
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nobody.check_hostname, nobody.verify_mode = False, ssl.CERT_NONE
    for stranger in (context(*other, server=False), nobody):
        try:
            assert await _greeted(server, stranger) == b""
        except (ssl.SSLError, ConnectionError):
            continue
    # And a server without the kernel's key is not spoken to.
    with pytest.raises(ssl.SSLError):
        await _greeted(context(*other, server=True), context(*own, server=False))
