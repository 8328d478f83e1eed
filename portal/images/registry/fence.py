"""Launcher of a command that has no network but a proxy, which this program's parent serves.

The parent gets the listening sockets of a new network namespace, so it alone decides who is
reached. HTTP_PROXY alone would not do: Go's programs reach loopback addresses without a proxy
(golang.org/x/net/http/httpproxy, "useProxy"), and there the Hub's own API answers.

This file is run as a program (``python -I fence.py``): it imports nothing of the portal.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import struct
import sys
from pathlib import Path
from typing import NoReturn

CLOSED, OPEN = b"closed", b"open"  # OPEN: no namespace is available, only the proxy
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000  # sched.h
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1  # netdevice(7)


def main(argv: list[str]) -> NoReturn:
    """Become the command in ``argv``: after the number of a Unix socket to the parent, and JSON of
    the (address, port) on loopback that are forwarded as they are. The parent is sent `CLOSED` or
    `OPEN`, and the sockets: the proxy's first, then one for each of the addresses."""
    wanted = [(str(host), int(port)) for host, port in json.loads(argv[2])]
    try:
        _new_network()
        state = CLOSED
    except OSError:
        state, wanted = OPEN, []
    listening = [_listen(host, port) for host, port in [("127.0.0.1", 0), *wanted]]
    with socket.socket(fileno=int(argv[1])) as parent:
        socket.send_fds(parent, [state], [listener.fileno() for listener in listening])
    proxy = f"http://127.0.0.1:{listening[0].getsockname()[1]}"
    for listener in listening:
        listener.close()
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        os.environ[name] = os.environ[name.lower()] = proxy
    os.execvp(argv[3], argv[3:])  # noqa: S606  a command of the portal's


def _new_network() -> None:
    """Enter a network namespace of our own, and bring its loopback up. Raises OSError."""
    user, group = os.geteuid(), os.getegid()
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_CLONE_NEWNET | (_CLONE_NEWUSER if user else 0)):
        raise OSError(ctypes.get_errno(), "unshare")
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=16)


if __name__ == "__main__":
    main(sys.argv)
