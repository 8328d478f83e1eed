"""Plain text of what programs print for terminals."""

from __future__ import annotations

import re

# As in static/js/curate/log.js.
_ESCAPES = re.compile("\x1b(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z\\\\-_])")
# Bidirectional marks too: with them, a line reads as another than it is.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
REPLACEMENT = "\ufffd"


def plain_text(text: str) -> str:
    """Return what a terminal shows of ``text``, without colours: of a line that was overwritten,
    the last state. Other control characters become U+FFFD."""
    lines = _ESCAPES.sub("", text).split("\n")
    # Not by an expression: its time would grow with the square of a line's length.
    visible_text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return _CONTROLS.sub(REPLACEMENT, visible_text)


def newest_part(text: str, longest: int) -> str:
    """Return the end of ``text`` as plain text: ``longest`` characters at most, from the beginning
    of a line if there is one."""
    if len(text) <= longest:
        return plain_text(text)
    part = text[-longest:]
    # A progress bar is one line: its newest state begins after a carriage return.
    begin = re.search("[\r\n](?=[^\r\n])", part)
    return plain_text(part[begin.end() :] if begin else part)
