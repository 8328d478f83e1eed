"""Errors of the file system, as sentences for the user."""

from __future__ import annotations

import errno

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def reason(error: OSError) -> str:
    """Return why a file was not written, up to the full stop, and what to do about a full disk."""
    why = f"{error.strerror or error}."
    if error.errno not in _FULL:
        return why
    return f"{why} Delete files that you do not need, then run it again."
