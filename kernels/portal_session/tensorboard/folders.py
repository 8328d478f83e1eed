"""Folders that TensorBoard may show: those below the user's own roots, links resolved.

The roots are the home and the site's writable bind mounts (PORTAL_TENSORBOARD_ROOTS, a JSON list
of absolute paths).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

MOST_NAMES = 1000  # folders in one listing
_MOST_ENTRIES = 50_000  # entries that are read for one listing
_LONGEST = 4096  # bytes of a path (PATH_MAX)


class FolderRefused(ValueError):
    """Folder that is not shown; the text says why."""


def roots_of(environ: Mapping[str, str]) -> list[str]:
    """Return the real paths of the roots; only the home if the variable is missing or not a
    list."""
    home = environ.get("HOME", "") or os.path.expanduser("~")  # noqa: PTH111
    try:
        named = json.loads(environ.get("PORTAL_TENSORBOARD_ROOTS", "") or "[]")
    except ValueError:
        named = []
    more = [path for path in named if isinstance(path, str)] if isinstance(named, list) else []
    roots = []
    for path in (home, *more):
        real = os.path.realpath(path)
        if path.startswith("/") and real != "/" and real not in roots:
            roots.append(real)
    return roots


def is_below(path: str, roots: Iterable[str]) -> bool:
    """Return True if ``path`` is one of ``roots`` or lies in one; both without links."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def resolve(name: Any, roots: list[str], base: str) -> str:
    """Return the real path of the folder ``name``; a relative one is below ``base``.

    Raises FolderRefused: outside the roots, a link out of them, missing, a file, unreadable.
    """
    if not isinstance(name, str) or not name.strip():
        raise FolderRefused("Choose a folder.")
    try:
        too_long = len(os.fsencode(name)) > _LONGEST
    except UnicodeEncodeError:  # a lone surrogate: possible in JSON, but not in a file name
        too_long = True
    if "\0" in name or too_long:
        raise FolderRefused("This is not a folder name.")
    if name == "~" or name.startswith("~/"):
        name = roots[0] + name[1:]
    path = os.path.normpath(os.path.join(base, name))
    real = os.path.realpath(path)
    allowed = ", ".join(roots)
    if not is_below(real, roots):
        if is_below(path, roots):
            raise FolderRefused(
                f"{path} leads through a symbolic link to {real}, which is outside the allowed "
                f"TensorBoard folders: {allowed}."
            )
        raise FolderRefused(f"{path} is outside the allowed TensorBoard folders: {allowed}.")
    if not os.path.lexists(real):
        raise FolderRefused(f"There is no folder {path}.")
    if not os.path.isdir(real):  # noqa: PTH112
        raise FolderRefused(f"{path} is not a folder. Choose the folder that contains it.")
    if not os.access(real, os.R_OK | os.X_OK):
        raise FolderRefused(f"You do not have permission to read {path}.")
    return real


def browse(path: str, roots: list[str]) -> dict[str, Any]:
    """List the folders in ``path`` (from `resolve`), and count the event files directly in it."""
    names = []
    events = looked_at = 0
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                looked_at += 1
                if looked_at > _MOST_ENTRIES:
                    break
                if "tfevents" in entry.name:
                    events += 1
                elif not entry.name.startswith(".") and _leads_inside(entry, roots):
                    names.append(entry.name)
    except OSError as error:
        raise FolderRefused(f"{path} cannot be read: {error.strerror}.") from error
    names.sort(key=str.casefold)
    parent = os.path.dirname(path)  # noqa: PTH120
    return {
        "path": path,
        "parent": parent if is_below(parent, roots) else None,
        "roots": roots,
        # Names that are not UTF-8 cannot be sent as JSON.
        "folders": [name for name in names[:MOST_NAMES] if name.isprintable()],
        "more": len(names) > MOST_NAMES or looked_at > _MOST_ENTRIES,
        "event_files": events,
    }


def _leads_inside(entry: os.DirEntry[str], roots: list[str]) -> bool:
    try:
        if not entry.is_dir():
            return False
    except OSError:
        return False
    return not entry.is_symlink() or is_below(os.path.realpath(entry.path), roots)


def walk(
    top: str, roots: list[str], skipped: Callable[[str], None]
) -> Iterator[tuple[str, list[str]]]:
    """Yield (folder, its files) for ``top`` and all below it, as absolute paths.

    Links are followed, once each, and only if they stay below the roots or ``top`` itself is what
    holds them; `skipped` is called with the others. TensorBoard's own walk follows every link.
    """
    seen: set[tuple[int, int]] = set()
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        files = []
        try:
            status = os.stat(folder)  # noqa: PTH116 - much faster than pathlib
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_symlink() and not is_below(os.path.realpath(entry.path), roots):
                        skipped(entry.path)
                    elif entry.is_dir():
                        waiting.append(entry.path)
                    else:
                        files.append(entry.path)
        except OSError:
            continue  # deleted or unreadable
        yield folder, files
