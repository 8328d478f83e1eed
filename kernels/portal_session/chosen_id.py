"""Ids that a session chooses, of its runs and of its kernels in jobs of their own. They are names
of files, too."""

from __future__ import annotations

import re

ID = "[0-9a-f][0-9a-f-]{7,39}"
_ID = re.compile(ID)


def is_id(text: object) -> bool:
    """Return True if ``text`` can be such an id."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None
