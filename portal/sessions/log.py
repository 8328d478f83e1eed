"""The end of a job's log, as text that a page can show.

The log is a user's: any bytes. Escape sequences and control characters are taken out here, and
what is not UTF-8 is replaced; markup is the page's to escape.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

# ECMA-48: CSI sequences, OSC strings (ended by BEL or ST), and two-byte escapes.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")

MAX_BYTES = 16_384


def clean(text: str) -> str:
    """``text`` without escape sequences and control characters (tabs and newlines stay)."""
    return _CONTROL.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def tail(path: Path, lines: int = 40) -> str:
    """The last ``lines`` lines of a log, at most 16 KiB; "" where it cannot be read.

    Blocks on the file system: call it in a thread. A path that is not a plain file is refused,
    since users own the directory's entries.
    """
    try:
        # O_NONBLOCK: opening a FIFO would wait for a writer; O_NOFOLLOW: a link may point anywhere.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return ""
    with open(descriptor, "rb") as file:  # noqa: PTH123  a descriptor, not a path
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return ""  # not the file that the Hub made
        size = file.seek(0, 2)
        file.seek(max(0, size - MAX_BYTES))
        data = file.read(MAX_BYTES)
    return "\n".join(clean(data.decode("utf-8", "replace")).splitlines()[-lines:])
