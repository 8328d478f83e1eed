"""Programs that a session's server starts and leaves running, with a log for what they say."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO


def start_logged(
    argv: Sequence[str], folder: str | Path, environ: Mapping[str, str], log: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start ``argv`` in ``folder`` with these environment variables; its output goes to ``log``.

    It is in a session of its own: an interrupt of the server must not reach it. Raises OSError.
    """
    return subprocess.Popen(
        argv,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
