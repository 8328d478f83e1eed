"""File names that come from others: which are handed out or collected, and which never are."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from urllib.parse import quote

LONGEST_NAME = 255  # bytes of a path component, as file systems limit them
LONGEST_PATH = 1000  # bytes of the whole path
DEPTH = 40  # nested folders
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
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


def unsafe(path: str) -> str:
    """Return why no file of this path (relative, with "/") is taken from anybody; "" if it is."""
    steps = path.split("/")
    if not path or "" in steps:
        return "has an empty name"
    if "." in steps or ".." in steps:
        return "leads out of the folder"
    if "\\" in path:  # a separator on some systems: "..\\..\\x" leads out there
        return "has a backslash in its name"
    if _CONTROL.search(path):
        return "has a control character in its name"
    if any(_is_git(step) for step in steps):
        return "has a name that git reserves"
    too_long = any(len(step.encode()) > LONGEST_NAME for step in steps)
    if too_long or len(path.encode()) > LONGEST_PATH or len(steps) > DEPTH:
        return "has a name that is too long"
    return ""


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


def _is_git(step: str) -> bool:
    """Return True if some file system takes it for ".git", by git's own rules (CVE-2014-9390)."""
    seen = "".join(char for char in step if unicodedata.category(char) != "Cf").casefold()
    seen = seen.partition(":")[0].rstrip(" .")
    return seen == ".git" or re.fullmatch(r"git~\d+", seen) is not None
