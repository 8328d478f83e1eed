"""TCP connections of this account, with their peers and received bytes: sock_diag(7), for which no
rights are needed."""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import Callable, NamedTuple

_SOCK_DIAG, _BY_FAMILY, _DONE, _ERROR = 4, 20, 3, 2  # NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, …
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_ESTABLISHED = 1 << 1
_INFO = 2  # INET_DIAG_INFO: struct tcp_info
_RECEIVED = 128  # offset of tcpi_bytes_received, Linux 4.1 and newer
_HEADER, _MESSAGE = 16, 72  # bytes of struct nlmsghdr and struct inet_diag_msg
PAUSE = 0.2  # seconds between two looks


class Connection(NamedTuple):
    """Connection: its ``peer`` as "address:port", and the bytes ``received``; None: not known."""

    peer: str
    received: int | None


class Connections:
    """Connections by inode during an observation. ``dump`` returns those of now."""

    def __init__(self, dump: Callable[[], dict[int, Connection]] | None = None) -> None:
        self._dump = dump or established
        self._at = 0.0
        self._now: dict[int, Connection] = {}
        self._first: dict[int, int] = {}  # received at the beginning; of newer ones 0
        self._last: dict[int, int] = {}
        self._refresh()
        self._first = dict(self._last)

    def peer(self, inode: int) -> str:
        """Return the peer of a socket; "" if it is no connection by TCP."""
        if time.monotonic() - self._at >= PAUSE:
            self._refresh()
        connection = self._now.get(inode)
        return connection.peer if connection else ""

    def received(self, inode: int) -> int:
        """Return the bytes that a connection has received since the beginning."""
        return self._last.get(inode, 0) - self._first.get(inode, 0)

    def _refresh(self) -> None:
        self._at = time.monotonic()
        now = self._dump()
        self._now = {**self._now, **now}  # a closed one keeps its peer
        for inode, connection in now.items():
            if connection.received is not None:
                self._last[inode] = connection.received


def established() -> dict[int, Connection]:
    """Return this account's connections by inode; {} where the kernel does not tell."""
    connections: dict[int, Connection] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        request = struct.pack(
            "=BBBxI48x", family, socket.IPPROTO_TCP, 1 << (_INFO - 1), _ESTABLISHED
        )
        header = struct.pack("=IHHII", _HEADER + len(request), _BY_FAMILY, _DUMP, 1, 0)
        try:
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as diag:
                diag.settimeout(1)
                diag.send(header + request)
                while _read(diag.recv(1 << 18), connections):
                    pass
        except (OSError, struct.error):
            continue
    return connections


def _read(answer: bytes, connections: dict[int, Connection]) -> bool:
    """Add the connections of an answer; return False if it is the last one."""
    while len(answer) >= _HEADER:
        length, kind = struct.unpack_from("=IH", answer)
        if kind in (_DONE, _ERROR) or length < _HEADER:
            return False
        _add(answer[_HEADER:length], connections)
        answer = answer[(length + 3) & ~3 :]
    return True


def _add(message: bytes, connections: dict[int, Connection]) -> None:
    uid, inode = struct.unpack_from("=II", message, 64)
    if uid != os.getuid() or not inode:
        return
    family, (port,) = message[0], struct.unpack_from("!H", message, 6)
    size = 4 if family == socket.AF_INET else 16
    address = socket.inet_ntop(family, message[24 : 24 + size])
    peer = f"{address}:{port}" if family == socket.AF_INET else f"[{address}]:{port}"
    connections[inode] = Connection(peer, _received(message[_MESSAGE:]))


def _received(attributes: bytes) -> int | None:
    while len(attributes) >= 4:
        length, kind = struct.unpack_from("=HH", attributes)
        if length < 4:
            return None
        if kind == _INFO and length >= 4 + _RECEIVED + 8:
            received: int = struct.unpack_from("=Q", attributes, 4 + _RECEIVED)[0]
            return received
        attributes = attributes[(length + 3) & ~3 :]
    return None
