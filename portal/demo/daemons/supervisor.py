"""What keeps the demo's pieces: starts them in order, watches them, ends them in reverse."""

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

_LOOK_EVERY = 2.0  # seconds between two looks at the daemons


class Piece(Protocol):
    """A part of the demo that can be started again and again."""

    def start(self) -> None:
        """Return when it serves."""

    def stop(self) -> None:
        """Return when it is over."""


class Supervisor:
    """Pieces by name, and the control socket ``path`` through which they are commanded."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self.path = path
        self.say = say
        self.pieces: dict[str, Piece] = {}
        self._told_dead: set[str] = set()

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
        """Each piece's name with "up" or "down"."""
        return {name: "up" if _up(piece) else "down" for name, piece in self.pieces.items()}

    def _answer(self, connection: socket.socket) -> bool:
        """One command; False when it is the last one."""
        connection.settimeout(5)
        text = b""
        while not text.endswith(b"\n"):
            more = connection.recv(4096)
            if not more:
                return True
            text += more
        words: dict[str, Any] = json.loads(text)
        try:
            answer = self._do(words.get("do", ""), words.get("name", ""))
        except (PortalError, OSError) as error:
            answer = {"error": str(error)}
        connection.sendall(json.dumps(answer).encode())
        return words.get("do") != "quit"

    def _do(self, do: str, name: str) -> dict[str, Any]:
        if do == "status":
            return {"pieces": self.status()}
        if do == "quit":
            return {"quitting": True}
        piece = self.pieces.get(name)
        if piece is None:
            return {"error": f"'{name}' is no piece of the demo: {', '.join(self.pieces)}."}
        if do == "start":
            piece.start()
            self._told_dead.discard(name)
        elif do in ("stop", "kill"):
            self._told_dead.add(name)  # on purpose: nothing to say about it
            if do == "kill" and isinstance(piece, Daemon):
                piece.kill()
            else:
                piece.stop()
        else:
            return {"error": f"'{do}' is no command: start, stop, kill, status, quit."}
        return {"done": True}

    def _watch(self) -> None:
        for name, piece in self.pieces.items():
            if name not in self._told_dead and not _up(piece):
                self._told_dead.add(name)
                self.say(f"{name} has ended by itself at {time.strftime('%H:%M:%S')}: see its log.")


def _up(piece: Piece) -> bool:
    if isinstance(piece, Daemon):
        return piece.running
    return getattr(piece, "pid", True) is not None
