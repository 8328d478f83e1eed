"""Frames of a link on one connection: read from the transport's buffers without a stream between,
which would copy a hundred megabytes of output three times more."""

from __future__ import annotations

import asyncio
import struct
from typing import Callable, Union

Message = Union[bytes, memoryview]

HEAD = struct.Struct(">IBQ")  # length, kind, number
DATA, RECEIVED, _PING = 0, 1, 2
PING_FRAME = HEAD.pack(0, _PING, 0)
LARGEST = 1024 * 1024 * 1024  # bytes of one message
PART = 256 * 1024  # bytes that are read or written at once


class BadFrame(Exception):
    """Malformed bytes from the other side."""


class Frames(asyncio.BufferedProtocol):
    """Protocol of a connection. ``take`` is called with the kind, the number and the message of
    each frame, ``received`` for each part that arrives. ``ended``: done when the connection is,
    with the exception of ``take`` if it raised one."""

    def __init__(
        self, take: Callable[[int, int, Message], None], received: Callable[[], None]
    ) -> None:
        self._take, self._received = take, received
        self._buffer = memoryview(bytearray(PART))
        self._head, self._message = bytearray(), bytearray()
        self._missing = -1  # bytes of the message; -1: the head is not complete
        self._room = asyncio.Event()
        self._room.set()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection over from its streams, with what they have read already."""
        over = reader.at_eof() or reader.exception() is not None
        writer.transport.set_protocol(self)
        if not over:
            reader.feed_eof()
            self._feed(memoryview(await reader.read()))
        if over or writer.transport.is_closing():
            self.end()

    async def drain(self) -> None:
        """Wait until the transport takes more."""
        await self._room.wait()

    def end(self) -> None:
        """End, if that has not happened yet."""
        self._room.set()
        if not self.ended.done():
            self.ended.set_result(None)

    # -- called by the transport ------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory for what arrives."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Read what has arrived."""
        self._feed(self._buffer[:nbytes])

    def pause_writing(self) -> None:
        """Keep writers waiting: the transport is full."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Let writers go on."""
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """End: the next connection goes on."""
        self.end()

    # -- frames -----------------------------------------------------------------------------

    def _feed(self, data: memoryview) -> None:
        self._received()
        try:
            while len(data) and not self.ended.done():
                data = data[self._read(data) :]
        except Exception as error:  # raised where the connection is awaited
            if not self.ended.done():
                self.ended.set_exception(error)

    def _read(self, data: memoryview) -> int:
        """Read the next part of a frame; return its length."""
        if self._missing < 0:
            part = data[: HEAD.size - len(self._head)]
            self._head += part
            if len(self._head) < HEAD.size:
                return len(part)
            self._missing, kind, _ = HEAD.unpack(self._head)
            if self._missing > LARGEST or kind not in (DATA, RECEIVED, _PING):
                raise BadFrame("an unknown frame")
        else:
            part = data[: self._missing]
            self._message += part
            self._missing -= len(part)
        if not self._missing:
            self._complete()
        return len(part)

    def _complete(self) -> None:
        _, kind, number = HEAD.unpack(self._head)
        message, self._message = self._message, bytearray()
        self._head.clear()
        self._missing = -1
        large = len(message) > PART
        self._take(kind, number, memoryview(message).toreadonly() if large else bytes(message))
