"""Program of the session's environment, and its process.

Its definition has a ``title`` and an ``argv``, in which {python}, {socket}, {port}, {base} and
{secret} are replaced. A program with {socket} listens on a Unix socket in a directory that no
other user can enter. One with {port} listens on the node's loopback, which every user of the node
can reach, so it asks for a secret: that lies in a file which only its owner can read, {secret},
and only `proxy` adds it to requests; it is never on a command line or in a browser.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..kernels.environment import for_commands
from ..peers import uid_of_listener
from .process import end, start_logged
from .target import LOOPBACK, Target

_TAIL = 4000  # bytes of its log's end that are shown


class Program:
    """Program and its process. ``directory`` is private to this user; ``base`` is the path that
    the browser sees, which a program without {base} in its argv does not."""

    def __init__(
        self,
        definition: Mapping[str, Any],
        directory: Path,
        base: str,
        folder: str,
        environ: Mapping[str, str],
    ) -> None:
        self.title = str(definition.get("title") or "The program")
        self.base = base
        self.port = 0
        self.secret = secrets.token_urlsafe(32)
        self._argv: list[str] = list(definition["argv"])
        words = " ".join(self._argv)
        self.socket = directory / "socket" if "{socket}" in words else None
        self._asks = "{secret}" in words
        self._stripped = "" if "{base}" in words else base
        self._folder = str(Path(folder).expanduser())
        # That of terminals, since editors have some. Editors put sockets for their own use into
        # this directory, else into the one that all users share.
        self._environ = {**for_commands(environ), "XDG_RUNTIME_DIR": str(directory)}
        self._file = directory / "secret"
        self._log = directory / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._connected = False

    def start(self) -> None:
        """Start the program, unless it runs. It listens some seconds later."""
        if self.runs:
            return
        self._file.touch(mode=0o600)
        self._file.write_text(self.secret)
        self._connected = False
        if self.socket is None:
            self.port = _free_port()
        else:
            self.socket.unlink(missing_ok=True)
        values = {
            "python": sys.executable,
            "port": str(self.port),
            "socket": str(self.socket),
            "base": self.base.rstrip("/"),
            "secret": str(self._file),
        }
        argv = [_filled(word, values) for word in self._argv]
        with self._log.open("ab") as log:
            try:
                self._process = start_logged(argv, self._folder, self._environ, log)
            except OSError as error:
                log.write(f"{argv[0]}: {error.strerror}\n".encode())

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def answers(self) -> bool:
        """Return True while it listens: another user's program on that port is never sent a
        request or the secret."""
        if not self.runs or self.socket is None:
            return self.runs and uid_of_listener(LOOPBACK, self.port) == os.getuid()
        self._connected = self._connected or connects(self.socket)
        return self._connected

    def target(self) -> Target | None:
        """Return where it answers; None while it does not."""
        if not self.answers:
            return None
        secret = self.secret if self._asks else ""
        return Target(self.socket, self.port, secret, self._stripped)

    def output(self) -> str:
        """Return the end of its log, without the secret."""
        try:
            text = self._log.read_bytes()[-_TAIL:].decode(errors="replace")
        except OSError:
            return ""
        return text.replace(self.secret, "***")

    def stop(self) -> None:
        """End it and what it started."""
        if self._process is not None:
            end(self._process)


def _filled(word: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), word)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def connects(path: Path) -> bool:
    """Return True if a program listens on a Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        # EAGAIN: it does, and has not taken other connections for long (connect(2)).
        return probe.connect_ex(str(path)) in (0, errno.EAGAIN)
