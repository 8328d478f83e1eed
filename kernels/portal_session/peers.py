"""Users behind TCP sockets of this node, by the kernel's own table (/proc/net/tcp, proc(5)): every
user of a node can connect to an address of that node, or listen on it first."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

_LISTENS = "0A"
_MOST = 256  # connections that one look at the table is for
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_OVER = (errno.EBADF, errno.EINVAL)  # of accept(2): the socket is shut down or closed
_PAUSE = 0.1  # seconds until there may be room for another connection


def uid_of_listener(address: str, port: int) -> int | None:
    """Return the id of the user who listens on that port of an IPv4 ``address``; None for
    nobody."""
    wanted = _shown(socket.AF_INET, address, port)
    for local, _, state, uid in _sockets(socket.AF_INET):
        if local == wanted and state == _LISTENS:
            return uid
    return None


def uids_of_peers(connections: Sequence[socket.socket]) -> list[int | None]:
    """Return the ids of the users at the other ends of accepted TCP connections of one family; None
    for one on another node, or that was closed already."""
    wanted: dict[tuple[str, str], int] = {}
    for index, connection in enumerate(connections):
        with contextlib.suppress(OSError):
            ends = (connection.getpeername(), connection.getsockname())
            there, here = (_shown(connection.family, *end[:2]) for end in ends)
            wanted[there, here] = index
    uids: list[int | None] = [None] * len(connections)
    for local, remote, _, uid in _sockets(connections[0].family) if wanted else ():
        index = wanted.pop((local, remote), -1)
        if index >= 0:
            uids[index] = uid
        if not wanted:
            break
    return uids


def accepted(listening: socket.socket, *, remote: bool = False) -> list[socket.socket]:
    """Wait for connections to a blocking socket; return those of this process's user and, with
    ``remote``, of other nodes. Those of other users of this node are closed: many at once, so that
    they keep nobody waiting. Raises OSError once the socket is shut down."""
    connections = [_accept(listening)]
    listening.setblocking(False)
    try:
        with contextlib.suppress(OSError):
            while len(connections) < _MOST:
                connections.append(listening.accept()[0])
    finally:
        listening.setblocking(True)
    own = []
    for connection, uid in zip(connections, uids_of_peers(connections)):
        if uid == os.getuid() or (remote and uid is None):
            own.append(connection)
        else:
            connection.close()
    return own


def _accept(listening: socket.socket) -> socket.socket:
    while True:
        try:
            return listening.accept()[0]
        except OSError as error:
            if error.errno in _OVER:
                raise
            if error.errno in _FULL:
                time.sleep(_PAUSE)


def _sockets(family: int) -> Iterator[tuple[str, str, str, int]]:
    """Yield local and remote address, state and user of each socket of this node."""
    table = Path("/proc/net", "tcp6" if family == socket.AF_INET6 else "tcp")
    with contextlib.suppress(OSError), table.open(encoding="ascii") as lines:
        next(lines, None)
        for line in lines:
            fields = line.split()
            yield fields[1], fields[2], fields[3], int(fields[7])


def _shown(family: int, host: str, port: int) -> str:
    """Return an address as the table has it: words of four bytes, each in the node's order."""
    packed = socket.inet_pton(family, host.partition("%")[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
