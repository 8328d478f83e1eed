"""A shared notebook as in JupyterLab's page: a Yjs document over the room's websocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import local_hosts
from jupyter_ydoc import YNotebook
from machine import patience
from pycrdt import Provider
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

PATIENCE = patience(90)  # seconds until a test gives up
FILE = "shared.ipynb"
NOTEBOOK = {
    "cells": [
        {"cell_type": "code", "id": "a", "source": "x = 1", "metadata": {}, "outputs": [],
         "execution_count": None}
    ],
    "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
}  # fmt: skip


class _Channel:
    """Channel of pycrdt to the server, over tornado's websocket."""

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
            return  # updates of other pages still arrive while this page is being closed
        await self.socket.write_message(message, binary=True)

    async def recv(self) -> bytes:
        message = await self.socket.read_message()
        if message is None:
            self.closed = True
            raise StopAsyncIteration
        return message if isinstance(message, bytes) else b""


class SharedNotebook:
    """Page of a person with the notebook."""

    def __init__(self, notebook: YNotebook, channel: _Channel) -> None:
        self.notebook, self.channel = notebook, channel

    @property
    def cells(self) -> list[str]:
        """Source of each cell, as on this page."""
        return [cell["source"] for cell in self.notebook.get()["cells"]]

    def type(self, text: str, cell: int = 0) -> None:
        """Append ``text`` to a cell."""
        source = self.notebook.ycells[cell]["source"]
        source += text

    async def until(self, text: str, cell: int = 0) -> None:
        """Wait until a cell contains ``text``."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while len(self.cells) <= cell or text not in self.cells[cell]:
            assert asyncio.get_running_loop().time() < deadline, f"{text!r}: {self.cells}"
            await asyncio.sleep(0.05)


@asynccontextmanager
async def opened(server: str, path: str, headers: dict[str, str]) -> AsyncIterator[SharedNotebook]:
    """Open the notebook ``path`` on the server at the URL ``server`` as the user in ``headers``."""
    api = f"{server.rstrip('/')}/api/collaboration"
    body = {"format": "json", "type": "notebook"}
    response = await asyncio.to_thread(
        local_hosts.request, "PUT", f"{api}/session/{path}", headers=headers, json=body
    )
    response.raise_for_status()
    room: dict[str, Any] = response.json()
    address = f"{api}/room/json:notebook:{room['fileId']}?sessionId={room['sessionId']}"
    url, host = local_hosts.reached(address.replace("http", "ws", 1))
    socket = await websocket_connect(HTTPRequest(url, headers={**headers, **host}))
    page = SharedNotebook(YNotebook(), _Channel(socket))
    async with Provider(page.notebook.ydoc, page.channel):
        yield page
        page.channel.left = True
        socket.close()


@asynccontextmanager
async def opened_by_two(
    server: str, *people: dict[str, str]
) -> AsyncIterator[tuple[SharedNotebook, SharedNotebook]]:
    """Open FILE, which contains NOTEBOOK, as the users in the two headers; both pages show it."""
    first, second = (opened(server, FILE, headers) for headers in people)
    async with first as page, second as other:
        await page.until("x = 1")
        await other.until("x = 1")
        yield page, other
