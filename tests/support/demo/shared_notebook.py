"""A shared notebook as JupyterLab's page has it: a Yjs document over the room's websocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import local_hosts
from jupyter_ydoc import YNotebook
from pycrdt import Provider
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

PATIENCE = 90  # seconds until a test gives up


class _Channel:
    """pycrdt's way to the server, over tornado's websocket."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self.socket = socket
        self.path = ""
        self.closed = False  # by the server
        self.left = False  # by this page

    def __aiter__(self) -> _Channel:
        return self

    async def __anext__(self) -> bytes:
        return await self.recv()

    async def send(self, message: bytes) -> None:
        if self.left:
            return  # what the other pages do is still on its way to a page that is being closed
        await self.socket.write_message(message, binary=True)

    async def recv(self) -> bytes:
        message = await self.socket.read_message()
        if message is None:
            self.closed = True
            raise StopAsyncIteration
        return message if isinstance(message, bytes) else b""


class SharedNotebook:
    """One person's page of it."""

    def __init__(self, notebook: YNotebook, channel: _Channel) -> None:
        self.notebook, self.channel = notebook, channel

    @property
    def cells(self) -> list[str]:
        """What stands in each cell, here."""
        return [cell["source"] for cell in self.notebook.get()["cells"]]

    def type(self, text: str, cell: int = 0) -> None:
        """Adds to a cell's end."""
        source = self.notebook.ycells[cell]["source"]
        source += text

    async def until(self, text: str, cell: int = 0) -> None:
        """Waits until ``text`` stands in a cell."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while len(self.cells) <= cell or text not in self.cells[cell]:
            assert asyncio.get_running_loop().time() < deadline, f"{text!r}: {self.cells}"
            await asyncio.sleep(0.05)


@asynccontextmanager
async def opened(server: str, path: str, headers: dict[str, str]) -> AsyncIterator[SharedNotebook]:
    """The notebook ``path`` of the server at the address ``server``, as who ``headers`` name."""
    api = f"{server.rstrip('/')}/api/collaboration"
    body = {"format": "json", "type": "notebook"}
    answer = await asyncio.to_thread(
        local_hosts.request, "PUT", f"{api}/session/{path}", headers=headers, json=body
    )
    answer.raise_for_status()
    told: dict[str, Any] = answer.json()
    address = f"{api}/room/json:notebook:{told['fileId']}?sessionId={told['sessionId']}"
    url, host = local_hosts.reached(address.replace("http", "ws", 1))
    socket = await websocket_connect(HTTPRequest(url, headers={**headers, **host}))
    page = SharedNotebook(YNotebook(), _Channel(socket))
    async with Provider(page.notebook.ydoc, page.channel):
        yield page
        page.channel.left = True
        socket.close()
