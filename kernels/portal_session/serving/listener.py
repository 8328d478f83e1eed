"""Listener of a replica: TLS connections of the gateway, on a port that strangers reach.

A connection is anybody's until its handshake is over. Where many are held, the oldest of the
address that has most of them is cut if it is slow, as the gateway is not, which may come with a
hundred requests at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from asyncio import sslproto
from collections import Counter
from typing import Any, Callable

_MANY = 64  # handshakes at once, from which slow ones are cut
_MOST = 512  # handshakes at once, from which any are cut
_SLOW = 3.0  # seconds
_PATIENCE = 10.0  # seconds for one
_PAUSE = 0.1  # seconds, where no more files can be opened
# Bytes of asyncio's buffer for each connection, which it fills with zeros: with its 256 KiB, two
# thousand streams would take half a gigabyte. A TLS record has 16 KiB at most.
_BUFFER = 16 * 1024


class Listener:
    """Server on the socket ``bound``; ``protocol`` makes that of each connection of the gateway."""

    def __init__(
        self, bound: socket.socket, tls: ssl.SSLContext, protocol: Callable[[], Any]
    ) -> None:
        self._bound, self._tls, self._protocol = bound, tls, protocol
        sslproto.SSLProtocol.max_size = _BUFFER
        self._shaking: dict[asyncio.Task[None], tuple[str, float, socket.socket]] = {}
        bound.setblocking(False)
        self._accepting = asyncio.ensure_future(self._accept())

    async def close(self) -> None:
        """Accept no more; may be called again. Connections stay, and handshakes go on: with TLS 1.3
        the gateway has sent a request before its handshake is over here."""
        self._accepting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._accepting
        self._bound.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(self._bound)
            except OSError:
                await asyncio.sleep(_PAUSE)
                continue
            if len(self._shaking) >= _MANY:
                self._cut_one(loop.time() - (_SLOW if len(self._shaking) < _MOST else 0.0))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = loop.create_task(self._shake(connection))
            self._shaking[task] = (str(address[0]), loop.time(), connection)
            task.add_done_callback(lambda task: self._shaking.pop(task, None))

    async def _shake(self, connection: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol, connection, ssl=self._tls, ssl_handshake_timeout=_PATIENCE
            )
        except OSError:  # ssl.SSLError too: of the other side, which may be anybody
            connection.close()

    def _cut_one(self, before: float) -> None:
        """Cut the oldest handshake of the address that has most, if it began ``before``."""
        ((most, _),) = Counter(host for host, _, _ in self._shaking.values()).most_common(1)
        for task, (host, began, connection) in self._shaking.items():
            if host == most:
                if began <= before:
                    # Not by cancelling: asyncio goes on with a handshake that is yet to begin.
                    _shut(connection)
                    del self._shaking[task]
                return


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
