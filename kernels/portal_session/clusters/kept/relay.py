"""Relays of a scheduler's pages between nodes: in its job, from a port to its Unix socket; in the
session's server, from a Unix socket to that port. Both ends prove that they have read the cluster's
record (mutual TLS): at a port, every user of a node could read the pages."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable
from pathlib import Path
from socket import socket
from typing import Any, Callable

_CHUNK = 64 * 1024  # bytes
_HANDSHAKE = 10.0  # seconds; strangers may connect and say nothing


async def serve_port(at: socket, tls: ssl.SSLContext, pages: Path) -> Any:
    """Serve a scheduler's ``pages``, a Unix socket, at a listening socket. Returns the server."""

    async def connect() -> Any:
        return await asyncio.open_unix_connection(str(pages))

    return await asyncio.start_server(
        _passing(connect), sock=at, ssl=tls, ssl_handshake_timeout=_HANDSHAKE
    )


async def serve_socket(at: socket, where: Callable[[], Awaitable[tuple[str, int, Any]]]) -> Any:
    """Serve at a listening Unix socket what is served at ``where``: host, port and TLS context,
    asked for at each connection since a scheduler may move. Returns the server."""

    async def connect() -> Any:
        host, port, tls = await where()
        return await asyncio.open_connection(
            host, port, ssl=tls, server_hostname="", ssl_handshake_timeout=_HANDSHAKE
        )

    return await asyncio.start_unix_server(_passing(connect), sock=at)


def _passing(connect: Callable[[], Awaitable[Any]]) -> Any:
    """Return a callback that connects each client with what ``connect`` opens."""

    async def passing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            with contextlib.suppress(Exception):  # either end may break at any time
                other_reader, other_writer = await connect()
                writers.append(other_writer)
                there = asyncio.ensure_future(_copy(reader, other_writer))
                back = asyncio.ensure_future(_copy(other_reader, writer))
                try:
                    await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    there.cancel()
                    back.cancel()
        finally:
            for each in writers:
                each.close()

    return passing


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
