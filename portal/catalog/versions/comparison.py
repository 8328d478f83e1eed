"""What differs between two versions of an environment: lines of their texts, and packages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from enum import StrEnum

from portal.models import Frozen

# Longer texts are compared as two blocks: difflib's time grows with the square of the lines.
MAX_LINES = 5000
_NAMED = re.compile(r"^([A-Za-z0-9._-]+)\s*(?:==|===|@)\s*(.+)$")


class Change(StrEnum):
    """What became of a line or a package."""

    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"
    CHANGED = "changed"


class LineChange(Frozen):
    """One line of the two texts. ``old`` and ``new`` are its numbers there, from 1."""

    change: Change
    text: str
    old: int | None = None
    new: int | None = None


class PackageChange(Frozen):
    """One package that is not the same in both; "" is the version of what is not there."""

    name: str
    change: Change
    old: str = ""
    new: str = ""


def changed_lines(old: str, new: str) -> tuple[LineChange, ...]:
    """Every line of both texts, those that are gone before those that came in their place."""
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > MAX_LINES:
        return (
            *(LineChange(change=Change.REMOVED, text=t, old=n) for n, t in enumerate(before, 1)),
            *(LineChange(change=Change.ADDED, text=t, new=n) for n, t in enumerate(after, 1)),
        )
    found: list[LineChange] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for what, from_old, to_old, from_new, to_new in matcher.get_opcodes():
        if what == "equal":
            found += (
                LineChange(
                    change=Change.SAME,
                    text=before[at],
                    old=at + 1,
                    new=at - from_old + from_new + 1,
                )
                for at in range(from_old, to_old)
            )
            continue
        found += (
            LineChange(change=Change.REMOVED, text=before[at], old=at + 1)
            for at in range(from_old, to_old)
        )
        found += (
            LineChange(change=Change.ADDED, text=after[at], new=at + 1)
            for at in range(from_new, to_new)
        )
    return tuple(found)


def changed_packages(old: Iterable[str], new: Iterable[str]) -> tuple[PackageChange, ...]:
    """What differs between two lists of "name==version", by name. Names that differ in case, "-"
    and "_" only are one (https://packaging.python.org/en/latest/specifications/name-normalization/).
    """
    before, after = _versions(old), _versions(new)
    found = []
    for key in sorted(before.keys() | after.keys()):
        name, was = before.get(key, ("", ""))
        newer_name, now = after.get(key, ("", ""))
        if was == now and name and newer_name:
            continue
        change = Change.CHANGED
        if not newer_name:
            change = Change.REMOVED
        elif not name:
            change = Change.ADDED
        found.append(PackageChange(name=newer_name or name, change=change, old=was, new=now))
    return tuple(found)


def _versions(packages: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Name as written and version, by the normalised name."""
    found = {}
    for package in packages:
        match = _NAMED.match(package.strip())
        name, version = match.groups() if match else (package.strip(), "")
        found[re.sub(r"[-_.]+", "-", name).lower()] = (name, version)
    return found
