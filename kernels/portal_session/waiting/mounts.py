"""Kinds of file systems by mount point: /proc/self/mountinfo (proc(5))."""

from __future__ import annotations

import re
from pathlib import Path


def mounts(proc: Path = Path("/proc")) -> dict[str, str]:
    """Return the kind by mount point, as this process sees them; {} if they cannot be read."""
    try:
        lines = (proc / "self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    kinds = {}
    for line in lines:
        before, dash, after = line.partition(" - ")
        fields = before.split()
        if dash and len(fields) > 4 and after:
            kinds[_plain(fields[4])] = after.split()[0]  # a later mount hides an earlier one
    return kinds


def _plain(path: str) -> str:
    """Return a path without the octal escapes of spaces and the like."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)
