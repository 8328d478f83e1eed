"""File names that come from others: which are handed out or collected, and which never are."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

from portal.safe_path import unsafe

# git quotes names with this character in its listings, which nbgitpuller reads; likewise names
# with a backslash (unsafe).
_QUOTED = frozenset('"')
# Files that git itself acts upon: filters and merge drivers, submodules, authors' names.
_GITS = frozenset({".gitattributes", ".gitmodules", ".mailmap", ".lfsconfig"})


def problem_of(path: str) -> str:
    """Return why a file of this path (relative, with "/") is not handed out; "" if it is."""
    if _QUOTED & set(path):
        return "has a quotation mark in its name"
    if path.rpartition("/")[2].lower() in _GITS:
        return "would change how git works"
    return unsafe(path)


def link_problem(path: str, target: str) -> str:
    """Return why a link at ``path`` (already checked) to ``target`` is not handed out; "" if it
    is.

    ``..`` may only stand at the beginning: after a name it would start from that name's target.
    """
    steps = target.split("/")
    up = 0
    while up < len(steps) and steps[up] == "..":
        up += 1
    down = "/".join(step for step in steps[up:] if step not in ("", "."))
    if target.startswith("/") or up > path.count("/") or ".." in steps[up:]:
        return "is a link that leads out of the folder"
    return problem_of(down) if down else ""


def folder_problem(folder: str) -> str:
    """Return why a folder of a home cannot be collected; "" if it can."""
    problem = unsafe(folder)
    if not problem and any(step.startswith(".") for step in folder.split("/")):
        return "has a name that begins with a dot: such folders hold settings, not work"
    return problem


def safe_name(name: str) -> str:
    """Return a folder name that is unique to ``name``: no slash, no leading dot, short."""
    folder_name = quote(name, safe="@+=,")
    if folder_name.startswith("."):
        folder_name = f"%2E{folder_name[1:]}"
    if len(folder_name) > 120:
        folder_name = f"{folder_name[:100]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    return folder_name
