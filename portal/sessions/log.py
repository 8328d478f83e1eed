"""The end of a job's log, as text that a page can show.

The log is a user's: any bytes. Escape sequences and control characters are taken out here, and
what is not UTF-8 is replaced by U+FFFD; markup is the page's to escape.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

# ECMA-48: CSI sequences; OSC, DCS, SOS, PM and APC strings, which end with BEL or ST and are cut at
# the line's end, so that one left open hides no more than its line; short escapes.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
# Unicode's line separators and what turns the direction of writing: a line with them could read as
# something else than it says, so they are shown.
_TURNING = re.compile(r"[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

MAX_BYTES = 16_384


def clean(text: str) -> str:
    """``text`` without escape sequences and control characters (tabs and newlines stay).

    Characters that turn the direction of writing become U+FFFD.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _TURNING.sub("\N{REPLACEMENT CHARACTER}", _CONTROL.sub("", _ESCAPES.sub("", text)))


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
