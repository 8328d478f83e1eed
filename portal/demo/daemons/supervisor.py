"""Supervisor of the demo's pieces: watches them and controls them through a socket."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from portal.errors import PortalError

from .process import Daemon

_LOOK_EVERY = 2.0  # seconds between two checks of the pieces


class Piece(Protocol):
    """Part of the demo that can be restarted."""

    def start(self) -> None:
        """Start the piece and wait until it serves."""

    def stop(self) -> None:
        """Stop the piece and wait for its end."""


class Supervisor:
    """Pieces by name, and the control socket ``path``. ``say`` is told of pieces that end."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self.path = path
        self.say = say
        self.pieces: dict[str, Piece] = {}
        self._reported_dead: set[str] = set()

    def serve(self) -> None:
        """Answer commands and watch the pieces until KeyboardInterrupt or the command "quit"."""
        self.path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
            old = os.umask(0o077)
            listener.bind(str(self.path))
            os.umask(old)
            listener.listen(8)
            selector.register(listener, selectors.EVENT_READ)
            try:
                while True:
                    if selector.select(_LOOK_EVERY):
                        connection, _ = listener.accept()
                        with connection, contextlib.suppress(OSError):
                            if not self._answer(connection):
                                return
                    self._watch()
            finally:
                self.path.unlink(missing_ok=True)

    def status(self) -> dict[str, str]:
        """Return "up" or "down" for each piece, by name."""
        return {name: "up" if _up(piece) else "down" for name, piece in self.pieces.items()}

    def _answer(self, connection: socket.socket) -> bool:
        """Answer a command; return False if it was "quit"."""
        connection.settimeout(5)
        text = b""
        while not text.endswith(b"\n"):
            more = connection.recv(4096)
            if not more:
                return True
            text += more
        command: dict[str, Any] = json.loads(text)
        try:
            response = self._do(command.get("do", ""), command.get("name", ""))
        except (PortalError, OSError) as error:
            response = {"error": str(error)}
        connection.sendall(json.dumps(response).encode())
        return command.get("do") != "quit"

    def _do(self, do: str, name: str) -> dict[str, Any]:
        if do == "status":
            return {"pieces": self.status()}
        if do == "quit":
            return {"quitting": True}
        piece = self.pieces.get(name)
        if piece is None:
            return {"error": f"Unknown process '{name}'. Known: {', '.join(self.pieces)}."}
        if do == "start":
            piece.start()
            self._reported_dead.discard(name)
        elif do in ("stop", "kill"):
            self._reported_dead.add(name)  # intended, so not reported
            if do == "kill" and isinstance(piece, Daemon):
                piece.kill()
            else:
                piece.stop()
        else:
            return {"error": f"Unknown command '{do}'. Known: start, stop, kill, status, quit."}
        return {"done": True}

    def _watch(self) -> None:
        for name, piece in self.pieces.items():
            if name not in self._reported_dead and not _up(piece):
                self._reported_dead.add(name)
                self.say(f"{name} exited unexpectedly at {time.strftime('%H:%M:%S')}: see its log.")


def _up(piece: Piece) -> bool:
    if isinstance(piece, Daemon):
        return piece.running
    return getattr(piece, "pid", True) is not None
