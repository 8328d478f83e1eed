"""Text of a job's log, made safe for a page.

A log is written by the user and can hold any bytes. Escape sequences and control characters are
removed here; the page has to escape markup.
"""

from __future__ import annotations

import re

# ECMA-48: CSI sequences; OSC, DCS, SOS, PM and APC strings, which end with BEL or ST and are cut at
# the line's end, so that one left open hides no more than its line; short escapes.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
# Unicode's line separators and bidirectional controls: a line with them could look different from
# its content, so they are made visible.
_TURNING = re.compile(r"[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Return ``text`` without escape sequences and control characters (tabs and newlines stay).

    Line separators and bidirectional controls become U+FFFD.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _TURNING.sub("\N{REPLACEMENT CHARACTER}", _CONTROL.sub("", _ESCAPES.sub("", text)))
