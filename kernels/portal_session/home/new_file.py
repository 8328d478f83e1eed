"""New files in a person's home."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_new(home: Path, folders: tuple[str, ...], name: str, text: str) -> bool:
    """Write a new file ``name`` in ``folders`` below ``home``; return False if that name exists.
    No link is followed on the way, wherever it points. Raises OSError."""
    place = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o755, dir_fd=place)
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place)
            os.close(place)
            place = below
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            file = os.open(name, flags, 0o644, dir_fd=place)
        except FileExistsError:
            return False
        try:
            with open(file, "w", encoding="utf-8") as out:  # noqa: PTH123  a descriptor
                out.write(text)
        except BaseException:
            os.unlink(name, dir_fd=place)
            raise
        return True
    finally:
        os.close(place)
