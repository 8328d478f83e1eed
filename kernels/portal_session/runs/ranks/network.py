"""Network between the nodes of a point: the address at which its ranks meet, and a trial of it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import hmac
import os
import random
import secrets
import socket
import struct
from collections.abc import Mapping
from pathlib import Path

_SIOCGIFADDR = 0x8915  # netdevice(7)
_PATIENCE = 5.0  # seconds for a connection
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 20_000
_TRIES = 200


def master_address(environ: Mapping[str, str]) -> str:
    """Return the address of rank 0's node for the others: the one from which srun has reached
    them, which it started on that node."""
    return environ.get("SLURM_LAUNCH_NODE_IPADDR") or socket.gethostbyname(socket.gethostname())


def own_address(address: str) -> str:
    """Return the address of this node from which it reaches ``address``. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))  # sends nothing
        return str(probe.getsockname()[0])


def interface_to(address: str) -> str:
    """Return the name of the interface by which this node reaches ``address``; "" if that is not
    known. Of its own address, the interface that has it."""
    try:
        own = own_address(address)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            for _, name in socket.if_nameindex():
                asked = struct.pack("256s", name.encode()[:15])
                with contextlib.suppress(OSError):  # it has no address
                    if socket.inet_ntoa(fcntl.ioctl(probe, _SIOCGIFADDR, asked)[20:24]) == own:
                        return name
    except OSError:
        pass
    return ""


def free_port(address: str, share: int = 0, shares: int = 1) -> int:
    """Return a port of ``address`` that is free and that no program gets unless it asks for it by
    its number: the kernel gives none below its own range. Of several who choose at the same time,
    each has one of the ``shares`` of the ports. Raises OSError."""
    try:
        above = int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        above = 32_768
    ports = range(_LOWEST, above) if above > _LOWEST + 1_000 else range(1_024, 65_536)
    ports = ports[share::shares]
    for port in random.SystemRandom().sample(ports, min(_TRIES, len(ports))):
        with socket.socket(socket.AF_INET) as trial:
            with contextlib.suppress(OSError):
                trial.bind((address, port))
                return port
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), address)


class Meeting:
    """Port at which the other nodes try whether they reach rank 0's. Both sides must know a key,
    which is in the ranks' private folder."""

    def __init__(self) -> None:
        self.key = secrets.token_hex(16)
        self._server: asyncio.Server | None = None

    async def open(self, address: str) -> int:
        """Listen; return the port. Raises OSError."""
        self._server = await asyncio.start_server(self._answer, address, 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.TimeoutError, ValueError):
            line = await asyncio.wait_for(reader.readline(), _PATIENCE)
            if hmac.compare_digest(line.strip(), self.key.encode()):
                writer.write(b"here\n")
                await writer.drain()
        writer.close()

    def close(self) -> None:
        """Listen no longer."""
        if self._server is not None:
            self._server.close()


async def trial(address: str, port: int, key: str) -> str:
    """Connect to rank 0's node; return "" or why that failed."""
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(address, port), _PATIENCE)
        try:
            writer.write(f"{key}\n".encode())
            answer = await asyncio.wait_for(reader.readline(), _PATIENCE)
        finally:
            writer.close()
        return "" if answer == b"here\n" else "another program answers there"
    except asyncio.TimeoutError:
        return f"no answer within {_PATIENCE:.0f} s"
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)
