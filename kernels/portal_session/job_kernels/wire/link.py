"""Link of relay and starter: messages arrive in order and once, over any number of connections.

Each message has a number; a side keeps what it sent until the other has acknowledged it, and sends
it again over the next connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Iterable
from typing import Any, Callable

from .frames import DATA, HEAD, PART, PING_FRAME, RECEIVED, BadFrame, Frames, Message

FULL = 64 * 1024 * 1024  # bytes that wait for the other side, after which senders should wait
PING = 5.0  # seconds between two signs of life
SILENCE = 20.0  # seconds without one, after which a connection counts as cut
_COUNT = struct.Struct(">I")
READ_AHEAD = 4 * 1024 * 1024  # bytes of a connection that its reader may keep


class Link:
    """Messages to and from the other side. ``receive`` is called with each new one, in order."""

    def __init__(self, receive: Callable[[Message], None]) -> None:
        self._receive = receive
        self._unsent: deque[tuple[int, bytes]] = deque()
        self._unacknowledged: deque[tuple[int, bytes]] = deque()
        self._last = 0  # number of the newest message to the other side
        self.received = 0  # number of the newest message from there
        self._acknowledged = 0
        self._size = 0
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._received_at = 0.0
        self._ping = False  # a sign of life is due
        self.connected = False

    @property
    def waiting(self) -> int:
        """Bytes that the other side has not acknowledged."""
        return self._size

    @property
    def first(self) -> int:
        """Number of the oldest message that the other side has not acknowledged, or of the next."""
        return self._last + 1 - len(self._unsent) - len(self._unacknowledged)

    def send(self, message: bytes) -> None:
        """Send a message, now or over a later connection."""
        self._last += 1
        self._unsent.append((self._last, message))
        self._size += len(message)
        self._empty.clear()
        if self._size > FULL:
            self._room.clear()
        self._news.set()

    async def room(self) -> None:
        """Wait until less than FULL bytes wait for the other side."""
        await self._room.wait()

    def restart(self) -> None:
        """Forget all messages and numbers: the other side does so, too."""
        self._unsent.clear()
        self._unacknowledged.clear()
        self._last = self.received = self._acknowledged = self._size = 0
        self._room.set()
        self._empty.set()

    def forget_received(self) -> None:
        """Count the other side's messages anew: its sender is a new process."""
        self.received = self._acknowledged = 0

    async def carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, theirs: int
    ) -> None:
        """Exchange messages over one connection until it ends. ``theirs``: the number of the
        newest message that the other side has received. Raises BadFrame."""
        # asyncio does so for sockets that name their protocol only; else each answer takes 40 ms.
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._drop(theirs)
        self._unsent.extendleft(reversed(self._unacknowledged))
        self._unacknowledged.clear()
        self._acknowledged = -1  # tell the other side at once
        self._news.set()
        self.connected = True
        self._received_at = asyncio.get_running_loop().time()
        frames = Frames(self._take, self._hear)
        tasks: list[asyncio.Future[None]] = []
        try:
            await frames.begin(reader, writer)
            tasks += [
                asyncio.ensure_future(self._write(writer, frames)),
                asyncio.ensure_future(self._beat(frames)),
            ]
            await frames.ended
        finally:
            self.connected = False
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            writer.transport.abort()

    async def flushed(self, seconds: float) -> bool:
        """Wait until the other side has received everything; False if it has not in time."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._empty.wait(), seconds)
        return self._empty.is_set()

    async def _write(self, writer: asyncio.StreamWriter, frames: Frames) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while True:
                self._write_signs(writer)
                if not self._unsent:
                    break
                number, message = self._unsent.popleft()
                self._unacknowledged.append((number, message))
                writer.write(HEAD.pack(len(message), DATA, number))
                # In parts: the other side decrypts one while this side encrypts the next.
                view = memoryview(message)
                for at in range(0, len(message), PART):
                    writer.write(view[at : at + PART])
                    await frames.drain()

    def _write_signs(self, writer: asyncio.StreamWriter) -> None:
        """Write what is due between two messages: the acknowledgement, a sign of life."""
        if self._acknowledged != self.received:
            self._acknowledged = self.received
            writer.write(HEAD.pack(0, RECEIVED, self.received))
        if self._ping:
            self._ping = False
            writer.write(PING_FRAME)

    async def _beat(self, frames: Frames) -> None:
        """Send signs of life; end a connection without any of the other side's, which TCP alone
        would keep for minutes."""
        while asyncio.get_running_loop().time() - self._received_at < SILENCE:
            self._ping = True
            self._news.set()
            await asyncio.sleep(PING)
        frames.end()

    def _hear(self) -> None:
        self._received_at = asyncio.get_running_loop().time()

    def _take(self, kind: int, number: int, message: Message) -> None:
        """Take a frame of the other side. Raises BadFrame."""
        if kind == RECEIVED:
            self._drop(number)
        elif kind == DATA and number == self.received + 1:
            self.received = number
            self._news.set()  # acknowledge it
            self._receive(message)
        elif kind == DATA and number > self.received:
            raise BadFrame(f"message {number} after {self.received}")

    def _drop(self, theirs: int) -> None:
        while self._unacknowledged and self._unacknowledged[0][0] <= theirs:
            self._size -= len(self._unacknowledged.popleft()[1])
        if self._size <= FULL:
            self._room.set()
        if not self._unacknowledged and not self._unsent:
            self._empty.set()


def pack(frames: Iterable[bytes], channel: bytes = b"") -> bytes:
    """Return the frames of a ZeroMQ message, after its channel, as one message of the link."""
    parts: list[bytes] = [channel]
    for frame in frames:
        parts += (_COUNT.pack(len(frame)), bytes(frame))
    return b"".join(parts)


def unpack(message: Message, start: int = 0) -> list[Any]:
    """Return the frames that ``pack`` got, from ``start`` on: bytes, large ones as views without a
    copy. Raises BadFrame."""
    frames: list[Any] = []
    view, at = memoryview(message), start
    while at < len(message):
        if at + _COUNT.size > len(message):
            raise BadFrame("a message that is cut")
        (length,) = _COUNT.unpack_from(message, at)
        at += _COUNT.size
        if at + length > len(message):
            raise BadFrame("a message that is cut")
        frame = view[at : at + length]
        frames.append(frame if length > PART else bytes(frame))
        at += length
    return frames
