"""The sockets of a relay: it knows who listens before it says what is said once."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio
from portal_session.job_kernels.wire.sockets import KernelSockets, address


class Site:
    """Bound sockets, and where clients connect."""

    def __init__(self, folder: Path) -> None:
        ports = {f"{name}_port": n for n, name in enumerate(("shell", "control", "stdin"), 1)}
        self.info: dict[str, Any] = {"transport": "ipc", "ip": str(folder / "k"), **ports}
        self.info |= {"iopub_port": 4, "hb_port": 5}
        self.sockets = KernelSockets(self.info)

    def listener(self, *topics: bytes) -> Any:
        """Return a client's socket that is subscribed to all, as Jupyter's are, and to these."""
        socket = zmq.asyncio.Context.instance().socket(zmq.SUB)
        socket.linger = 0
        socket.connect(address(self.info, "iopub"))
        for topic in (b"", *topics):
            socket.subscribe(topic)
        return socket


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(tmp_path)
    reading = asyncio.ensure_future(site.sockets.read_subscriptions())
    yield site
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    site.sockets.close()


async def test_what_is_said_after_the_subscription_arrives(site: Site) -> None:
    page = site.listener()
    waiting = asyncio.ensure_future(site.sockets.subscribed(b"topic"))
    await asyncio.sleep(0.3)
    assert not waiting.done(), "a page does not subscribe to it"
    server = site.listener(b"topic")
    await asyncio.wait_for(waiting, 5)
    word = uuid.uuid4().hex.encode()
    await site.sockets.iopub.send_multipart([b"topic", word])
    await site.sockets.iopub.send_multipart([b"other"])
    for socket in (page, server):
        assert await asyncio.wait_for(socket.recv_multipart(), 5) == [b"topic", word]
        assert await asyncio.wait_for(socket.recv_multipart(), 5) == [b"other"], "once"
        socket.close()


async def test_who_has_left_is_not_counted(site: Site) -> None:
    server = site.listener(b"topic")
    await asyncio.wait_for(site.sockets.subscribed(b"topic"), 5)
    server.close()
    for _ in range(100):
        await asyncio.sleep(0.05)
        if not site.sockets._event(b"topic").is_set():
            return
    pytest.fail("it still counts as subscribed")


async def test_a_client_that_comes_back_late_hears_what_is_said_at_once(site: Site) -> None:
    """As jupyter_server's sockets do after a restart: they connect again within 0.1 s."""
    asyncio.get_running_loop().call_later(0.3, lambda: clients.append(site.listener()))
    clients: list[Any] = []
    await asyncio.wait_for(site.sockets.any_subscribed(), 5)
    await site.sockets.iopub.send_multipart([b"status", b"idle"])
    (client,) = clients
    assert await asyncio.wait_for(client.recv_multipart(), 5) == [b"status", b"idle"]
    client.close()


async def test_nobody_is_awaited_for_long(site: Site) -> None:
    await asyncio.wait_for(site.sockets.any_subscribed(), 3)
