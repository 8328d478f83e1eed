"""Users behind TCP sockets of this node, by the kernel's own table (/proc/net/tcp, proc(5)): every
user of a node can connect to an address of that node, or listen on it first."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

_LISTENS = "0A"
_Address = tuple[str, int]


def uid_of_listener(address: str, port: int) -> int | None:
    """Return the id of the user who listens on that port of an IPv4 ``address``; None for
    nobody."""
    wanted = _shown(socket.AF_INET, (address, port))
    for local, _, state, uid in _sockets(socket.AF_INET):
        if local == wanted and state == _LISTENS:
            return uid
    return None


def uid_of_peer(connection: socket.socket) -> int | None:
    """Return the id of the user at the other end of an accepted TCP connection; None if that is on
    another node, or has closed it already."""
    try:
        here, there = connection.getsockname()[:2], connection.getpeername()[:2]
    except OSError:
        return None
    wanted = _shown(connection.family, there), _shown(connection.family, here)
    for local, remote, _, uid in _sockets(connection.family):
        if (local, remote) == wanted:
            return uid
    return None


def _sockets(family: int) -> Iterator[tuple[str, str, str, int]]:
    """Yield local and remote address, state and user of each socket of this node."""
    table = Path("/proc/net", "tcp6" if family == socket.AF_INET6 else "tcp")
    with contextlib.suppress(OSError), table.open(encoding="ascii") as lines:
        next(lines, None)
        for line in lines:
            fields = line.split()
            yield fields[1], fields[2], fields[3], int(fields[7])


def _shown(family: int, address: _Address) -> str:
    """Return an address as the table has it: words of four bytes, each in the node's order."""
    host, port = address
    packed = socket.inet_pton(family, host.partition("%")[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
