"""Program that a session opens instead of JupyterLab, behind the session's own login.

PORTAL_PROGRAM, from the portal, has its ``title`` and ``argv``, in which {python}, {port}, {base}
and {secret} are replaced. It listens on the node's loopback, which every user of the node can
reach, so it asks for a secret. That lies in a file which only its owner can read, and only
`program_proxy` adds it to requests; it is never on a command line or in a browser.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..logged_program import start_logged
from ..peers import uid_of_listener

PATH = "portal/program/"  # below the server's base_url
_PATIENCE = 5.0  # seconds from SIGTERM to SIGKILL
_TAIL = 4000  # bytes of its log's end that are shown
# The session's own credentials, which the program must not get.
_SECRETS = ("JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN")


def told_of(environ: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the program to run; None for every other session."""
    try:
        definition = json.loads(environ.get("PORTAL_PROGRAM", ""))
    except ValueError:
        return None
    argv = definition.get("argv") if isinstance(definition, dict) else None
    good = isinstance(argv, list) and argv and all(isinstance(word, str) for word in argv)
    return definition if good else None


class Program:
    """Program and its process. ``directory`` is private to this user; ``base`` is the path that
    the browser sees."""

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
        self._folder = str(Path(folder).expanduser())
        self._environ = {key: environ[key] for key in environ if key not in _SECRETS}
        self._file = directory / "secret"
        self._log = directory / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the program, unless it runs. It listens some seconds later."""
        if self.runs:
            return
        self._file.touch(mode=0o600)
        self._file.write_text(self.secret)
        self.port = _free_port()
        values = {
            "python": sys.executable,
            "port": str(self.port),
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
        return self.runs and uid_of_listener("127.0.0.1", self.port) == os.getuid()

    def said(self) -> str:
        """Return the end of its log, without the secret."""
        try:
            text = self._log.read_bytes()[-_TAIL:].decode(errors="replace")
        except OSError:
            return ""
        return text.replace(self.secret, "***")

    def stop(self) -> None:
        """End it and what it started."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(OSError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE)
                return


def _filled(word: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), word)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
