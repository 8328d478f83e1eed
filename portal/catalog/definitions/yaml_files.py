"""YAML files of a directory that admins edit, each read again only if it changed."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

# Tells whether a file changed: mtime_ns, ctime_ns, size, inode.
Mark = tuple[int, int, int, int]
NO_MARK: Mark = (0, 0, 0, 0)


class FileContent(NamedTuple):
    """Content of a file, its first bytes; None: it has the mark that is known. ``owner``: the
    number of its account."""

    mark: Mark
    owner: int
    raw: bytes | None
    problem: str = ""  # why it was not read


def yaml_files(directory: Path) -> list[Path]:
    """Return the YAML files of a directory, by name. Raises OSError."""
    return sorted(
        (
            entry
            for entry in directory.iterdir()
            if entry.suffix in (".yaml", ".yml") and not entry.name.startswith(".")
        ),
        key=lambda path: path.name,
    )


def content_of(path: Path, known: Mark | None, most: int) -> FileContent:
    """Return at most ``most`` bytes of a file, unless its mark is ``known``; raise nothing."""
    mark, owner = NO_MARK, 0
    try:
        # O_NONBLOCK: a named pipe put here must not hang the reader.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            mark = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
            owner = status.st_uid
            if known == mark:
                return FileContent(mark, owner, None)
            if not stat.S_ISREG(status.st_mode):
                return FileContent(mark, owner, b"", "not a regular file")
            return FileContent(mark, owner, file.read(most))
    except OSError as error:
        return FileContent(NO_MARK, owner, b"", f"cannot be read: {error.strerror}")
