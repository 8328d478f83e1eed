"""Differences between two versions of an environment: lines of their texts, and packages."""

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
    """Change of a line or a package."""

    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"
    CHANGED = "changed"


class LineChange(Frozen):
    """Line of a comparison. ``old`` and ``new``: its numbers in the two texts, from 1."""

    change: Change
    text: str
    old: int | None = None
    new: int | None = None


class PackageChange(Frozen):
    """Package that differs. ``old`` and ``new``: its versions; "" if it is not there."""

    name: str
    change: Change
    old: str = ""
    new: str = ""


def changed_lines(old: str, new: str) -> tuple[LineChange, ...]:
    """Return every line of both texts, removed lines before those that replace them."""
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > MAX_LINES:
        return (
            *(LineChange(change=Change.REMOVED, text=t, old=n) for n, t in enumerate(before, 1)),
            *(LineChange(change=Change.ADDED, text=t, new=n) for n, t in enumerate(after, 1)),
        )
    changes: list[LineChange] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, from_old, to_old, from_new, to_new in matcher.get_opcodes():
        if tag == "equal":
            changes += (
                LineChange(
                    change=Change.SAME,
                    text=before[at],
                    old=at + 1,
                    new=at - from_old + from_new + 1,
                )
                for at in range(from_old, to_old)
            )
            continue
        changes += (
            LineChange(change=Change.REMOVED, text=before[at], old=at + 1)
            for at in range(from_old, to_old)
        )
        changes += (
            LineChange(change=Change.ADDED, text=after[at], new=at + 1)
            for at in range(from_new, to_new)
        )
    return tuple(changes)


def changed_packages(old: Iterable[str], new: Iterable[str]) -> tuple[PackageChange, ...]:
    """Return the differences between two lists of "name==version", by name. Names that differ only
    in case, "-" and "_" are the same
    (https://packaging.python.org/en/latest/specifications/name-normalization/).
    """
    before, after = _versions(old), _versions(new)
    changes = []
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
        changes.append(PackageChange(name=newer_name or name, change=change, old=was, new=now))
    return tuple(changes)


def _versions(packages: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the name as written and the version, by the normalised name."""
    versions = {}
    for package in packages:
        match = _NAMED.match(package.strip())
        name, version = match.groups() if match else (package.strip(), "")
        versions[re.sub(r"[-_.]+", "-", name).lower()] = (name, version)
    return versions
