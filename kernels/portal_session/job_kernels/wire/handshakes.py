"""TLS server for a kernel's job, on a port that strangers reach: a bounded number of handshakes.

Until its handshake is over, a connection may be anybody's, and takes a third of a megabyte. The
starter says a name that only readers of the kernel's record know (RFC 6066, section 3), with its
first bytes. Where there are too many connections, one that has not said it is cut: the oldest one
of the address that has most of them. Other users of this node are not let in at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import hmac
import socket
import ssl
import threading
import traceback
from collections import Counter
from collections.abc import Awaitable
from concurrent.futures import CancelledError
from typing import Any, Callable

from ...peers import accepted
from .link import READ_AHEAD

MOST = 32  # handshakes at once
_PART = MOST // 2  # handshakes that begin at once
_PAUSE = 0.01  # seconds between two parts, in which a client can say the name
_PATIENCE = 10.0  # seconds for one
_Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class _Handshake:
    """Handshake that is not over. ``named``: the other side has said the name."""

    def __init__(self, host: str, connection: socket.socket) -> None:
        self.host, self.connection, self.named = host, connection, False


# The transport's callbacks have the context in which it was made.
_current: contextvars.ContextVar[_Handshake] = contextvars.ContextVar("_current")


class Handshakes:
    """Server on the socket ``bound``, whose clients say ``name``; ``connected`` is called with the
    streams of each that has proved its key."""

    def __init__(
        self, bound: socket.socket, tls: ssl.SSLContext, name: str, connected: _Connected
    ) -> None:
        self._bound, self._tls, self._name, self._connected = bound, tls, name.encode(), connected
        self._loop = asyncio.get_running_loop()
        self._open: list[_Handshake] = []  # the oldest first
        self._tasks: set[asyncio.Future[None]] = set()
        tls.sni_callback = self._take_name
        bound.setblocking(True)
        threading.Thread(target=self._accept, name="portal-accept", daemon=True).start()

    def close(self) -> None:
        """Stop listening, and cut all whose handshake is not over."""
        with contextlib.suppress(OSError):
            self._bound.shutdown(socket.SHUT_RDWR)  # ends accept(2) in the thread, which closes it
        for handshake in list(self._open):
            self._cut(handshake)

    def _accept(self) -> None:
        """Accept until the socket is shut down. It is a thread: the kernel's table is a file."""
        # The loop may be closed, and its tasks cancelled.
        with self._bound, contextlib.suppress(OSError, RuntimeError, CancelledError):
            while True:
                connections = accepted(self._bound, remote=True)
                for first in range(0, len(connections), _PART):
                    beginning = self._begin(connections[first : first + _PART])
                    asyncio.run_coroutine_threadsafe(beginning, self._loop).result()

    async def _begin(self, connections: list[socket.socket]) -> None:
        for connection in connections:
            try:
                host = str(connection.getpeername()[0])
            except OSError:
                connection.close()
                continue
            connection.setblocking(False)
            if len(self._open) >= MOST:
                self._cut(self._least())
            handshake = _Handshake(host, connection)
            self._open.append(handshake)
            task = asyncio.ensure_future(self._shake(handshake))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await asyncio.sleep(_PAUSE)

    async def _shake(self, handshake: _Handshake) -> None:
        _current.set(handshake)
        reader = asyncio.StreamReader(limit=READ_AHEAD)
        protocol = asyncio.StreamReaderProtocol(reader, self._connected)
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol,
                handshake.connection,
                ssl=self._tls,
                ssl_handshake_timeout=_PATIENCE,
            )
        except OSError as error:  # of the other side, which may be anybody
            handshake.connection.close()
            # asyncio's frames and the error refer to each other, and to the buffers.
            traceback.clear_frames(error.__traceback__)
        finally:
            with contextlib.suppress(ValueError):
                self._open.remove(handshake)

    def _take_name(self, _ssl_object: Any, name: str | None, _context: ssl.SSLContext) -> None:
        """Note that the other side has said the name. Another one is no error: a starter of an
        older version says none."""
        handshake = _current.get(None)
        if handshake is not None and hmac.compare_digest((name or "").encode(), self._name):
            handshake.named = True

    def _least(self) -> _Handshake:
        """Return the handshake that makes room for another."""
        strangers = [handshake for handshake in self._open if not handshake.named] or self._open
        ((most, _),) = Counter(handshake.host for handshake in strangers).most_common(1)
        return next(handshake for handshake in strangers if handshake.host == most)

    def _cut(self, handshake: _Handshake) -> None:
        self._open.remove(handshake)
        # Not by cancelling its task: asyncio goes on with a handshake that is yet to begin.
        with contextlib.suppress(OSError):
            handshake.connection.shutdown(socket.SHUT_RDWR)
