"""Tail of a job's log, as text that a page can show (portal/models/log_text.py); bytes that are
not UTF-8 are replaced by U+FFFD."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ..models.log_text import clean

__all__ = ["clean", "tail"]

MAX_BYTES = 16_384


def tail(path: Path, lines: int = 40) -> str:
    """Return the last ``lines`` lines of a log, at most 16 KiB; "" if it cannot be read.

    Blocks on the file system: call it in a thread. A path that is not a plain file is refused,
    since users own the directory's entries.
    """
    try:
        # O_NONBLOCK: opening a FIFO would wait for a writer; O_NOFOLLOW: a link may point anywhere.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return ""
    with open(descriptor, "rb") as file:  # noqa: PTH123  a descriptor, not a path
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return ""  # not the file that the Hub made
        size = file.seek(0, 2)
        file.seek(max(0, size - MAX_BYTES))
        data = file.read(MAX_BYTES)
    return "\n".join(clean(data.decode("utf-8", "replace")).splitlines()[-lines:])
