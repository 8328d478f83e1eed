"""A shared notebook as JupyterLab's page has it: a Yjs document over the room's websocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from jupyter_ydoc import YNotebook
from pycrdt import Provider
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

PATIENCE = 30  # seconds until a test gives up


class _Channel:
    """pycrdt's way to the server, over tornado's websocket."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self.socket = socket
        self.path = ""

    def __aiter__(self) -> _Channel:
        return self

    async def __anext__(self) -> bytes:
        return await self.recv()

    async def send(self, message: bytes) -> None:
        await self.socket.write_message(message, binary=True)

    async def recv(self) -> bytes:
        message = await self.socket.read_message()
        if message is None:
            raise StopAsyncIteration
        return message if isinstance(message, bytes) else b""


class SharedNotebook:
    """One person's page of it."""

    def __init__(self, notebook: YNotebook, socket: WebSocketClientConnection) -> None:
        self.notebook, self.socket = notebook, socket

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
async def opened(
    server: str, path: str, headers: dict[str, str], query: str = ""
) -> AsyncIterator[SharedNotebook]:
    """The notebook ``path`` of the server at the address ``server``, as who ``headers`` name."""
    api = f"{server.rstrip('/')}/api/collaboration"
    async with httpx.AsyncClient(headers=headers, timeout=PATIENCE) as client:
        body = {"format": "json", "type": "notebook"}
        answer = await client.put(f"{api}/session/{path}{query}", json=body)
        answer.raise_for_status()
        told: dict[str, Any] = answer.json()
    address = f"{api}/room/json:notebook:{told['fileId']}?sessionId={told['sessionId']}"
    request = HTTPRequest(address.replace("http", "ws", 1), headers=headers)
    socket = await websocket_connect(request)
    page = SharedNotebook(YNotebook(), socket)
    async with Provider(page.notebook.ydoc, _Channel(socket)):
        yield page
        socket.close()
