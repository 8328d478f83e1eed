"""Free ports on loopback: picked at the first start, held, and remembered for the next ones."""

from __future__ import annotations

import json
import random
import socket
from pathlib import Path

# Below the range from which the kernel takes ports for outgoing connections (ip(7),
# ip_local_port_range: 32768 on), so that no connection takes a remembered port between two starts.
_RANGE = range(20000, 32000)


def free(port: int) -> bool:
    """Whether ``port`` can be bound on 127.0.0.1 and on every address of this machine."""
    for address in ("127.0.0.1", "0.0.0.0"):  # noqa: S104 - asked, not served
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                return False
    return True


def own_address() -> str | None:
    """The loopback address that this machine's name stands for (127.0.0.1, or 127.0.1.1 as Debian
    writes it into /etc/hosts); None where the name means an address of the network, or nothing."""
    try:
        address = socket.gethostbyname(socket.gethostname())
    except OSError:
        return None
    return address if address.startswith("127.") else None


def free_port() -> int:
    """Pick a free port. It stays this process's until that ends: no other process picks it too,
    though the server for which it is starts much later."""
    while not (free(port := random.choice(_RANGE)) and _hold(port)):  # noqa: S311 - no secret
        pass
    return port


_holders: list[socket.socket] = []  # bound as long as this process lives


def _hold(port: int) -> bool:
    """Bind ``port`` and do not listen; return whether nobody else holds it.

    A server that sets SO_REUSEADDR can still bind it (socket(7)), and all of the portal's do; the
    bind here goes without, so two processes that pick at the same moment do not both get it.
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
    """Ports by name, kept in the file ``path`` (JSON)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._ports: dict[str, int] = json.loads(path.read_text())
        except (FileNotFoundError, ValueError):
            self._ports = {}

    def __getitem__(self, name: str) -> int:
        """The port called ``name``."""
        return self._ports[name]

    def pick(self, *names: str) -> None:
        """See that each name has a port that is free now; keep the remembered one if it is."""
        for name in names:
            port = self._ports.get(name)
            while port is None or not free(port) or port in self._others(name):
                port = free_port()
            self._ports[name] = port
        self.path.write_text(json.dumps(self._ports, indent=1, sort_keys=True))

    def _others(self, name: str) -> set[int]:
        return {port for other, port in self._ports.items() if other != name}
