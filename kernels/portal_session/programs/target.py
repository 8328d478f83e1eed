"""Address at which a program of the session answers its proxy."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

LOOPBACK = "127.0.0.1"


class Target(NamedTuple):
    """Unix socket, else a port of 127.0.0.1. ``secret``: what the proxy adds to requests;
    ``stripped``: the beginning of the browser's path that the program does not see."""

    socket: Path | None
    port: int = 0
    secret: str = ""
    stripped: str = ""

    @property
    def host(self) -> str:
        """Return the name for its address: another user may listen on ::1, also "localhost"."""
        return "localhost" if self.socket else LOOPBACK
