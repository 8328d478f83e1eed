"""Processes of programs that a session's server starts and leaves running, with a log for what
they say."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

PATIENCE = 5.0  # seconds from SIGTERM to SIGKILL
# The session's own credentials, which no program gets.
_SECRETS = ("JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN")


def start_logged(
    argv: Sequence[str], folder: str | Path, environ: Mapping[str, str], log: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start ``argv`` in ``folder`` with these environment variables, but for the session's
    credentials; its output goes to ``log``.

    It is in a session of its own: an interrupt of the server must not reach it. Raises OSError.
    """
    return subprocess.Popen(
        argv,
        cwd=folder,
        env={key: environ[key] for key in environ if key not in _SECRETS},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that `start_logged` has started, and what it started, within PATIENCE."""
    if process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(OSError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
            return
