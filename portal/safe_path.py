"""Paths that come from others. Pure."""

from __future__ import annotations

import re
import unicodedata

LONGEST_NAME = 255  # bytes of a path component, as file systems limit them
LONGEST_PATH = 1000  # bytes of the whole path
DEPTH = 40  # nested folders
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


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


def _is_git(step: str) -> bool:
    """Return True if some file system takes it for ".git", by git's own rules (CVE-2014-9390)."""
    seen = "".join(char for char in step if unicodedata.category(char) != "Cf").casefold()
    seen = seen.partition(":")[0].rstrip(" .")
    return seen == ".git" or re.fullmatch(r"git~\d+", seen) is not None
