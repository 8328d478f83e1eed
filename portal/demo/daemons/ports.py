"""Free loopback ports: picked and held at the first start, reused by later ones."""

from __future__ import annotations

import json
import random
import socket
from pathlib import Path

# Below the ephemeral ports (ip(7), ip_local_port_range: from 32768), so that no outgoing connection
# takes a remembered port between two starts.
_RANGE = range(20000, 32000)


def free(port: int) -> bool:
    """Return True if ``port`` can be bound on 127.0.0.1 and on all addresses of this machine."""
    for address in ("127.0.0.1", "0.0.0.0"):  # noqa: S104 - asked, not served
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                return False
    return True


def own_address() -> str | None:
    """Return the loopback address of this machine's name (127.0.0.1, or Debian's 127.0.1.1 in
    /etc/hosts); None if the name resolves to an address of the network, or not at all."""
    try:
        address = socket.gethostbyname(socket.gethostname())
    except OSError:
        return None
    return address if address.startswith("127.") else None


def free_port() -> int:
    """Pick a free port and hold it until this process ends, so that no other process picks it
    before its server starts."""
    while not (free(port := random.choice(_RANGE)) and _hold(port)):  # noqa: S311 - no secret
        pass
    return port


_holders: list[socket.socket] = []  # bound until this process ends


def _hold(port: int) -> bool:
    """Bind ``port`` without listening; return True unless somebody else holds it.

    Servers that set SO_REUSEADDR, as all of the portal's do, can still bind it (socket(7)). This
    bind does not set it, so two processes that pick at the same moment cannot both get the port.
    """
    holder = socket.socket()
    try:
        holder.bind(("127.0.0.1", port))
    except OSError:
        holder.close()
        return False
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _holders.append(holder)
    return True


class Ports:
    """Ports by name, stored in the file ``path`` (JSON)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._ports: dict[str, int] = json.loads(path.read_text())
        except (FileNotFoundError, ValueError):
            self._ports = {}

    def __getitem__(self, name: str) -> int:
        """Return the port called ``name``."""
        return self._ports[name]

    def pick(self, *names: str) -> None:
        """Give each name a port that is free now: the remembered one if possible."""
        for name in names:
            port = self._ports.get(name)
            while port is None or not free(port) or port in self._others(name):
                port = free_port()
            self._ports[name] = port
        self.path.write_text(json.dumps(self._ports, indent=1, sort_keys=True))

    def _others(self, name: str) -> set[int]:
        return {port for other, port in self._ports.items() if other != name}
