"""State of one TensorBoard, in two small files of its place.

``about.json`` is written by whoever starts it, ``state.json`` by the program itself.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write(path: Path, content: dict[str, Any]) -> None:
    """Replace the file atomically: a reader sees the old or the new content."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content))
    new.replace(path)


def read(path: Path) -> dict[str, Any]:
    """Return the content of the file; an empty dictionary if there is none."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def birth(pid: int) -> int | None:
    """Return the start time of process ``pid``, in clock ticks since boot (proc(5), field 22 of
    stat): a pid is reused, the pair of both is not. None if there is no such process, or it only
    waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def is_alive(state: dict[str, Any]) -> bool:
    """Return True if the program that wrote ``state`` still runs."""
    pid = state.get("pid")
    return isinstance(pid, int) and birth(pid) is not None and birth(pid) == state.get("birth")


def own_birth() -> int | None:
    return birth(os.getpid())
