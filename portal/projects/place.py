"""Place of a project's folder: a directory below the site's, called like the project."""

from __future__ import annotations

import os
import stat


def folder_path(root: str, name: str) -> str:
    """Return the path of a project's folder below ``root``; "" if the site has none."""
    return f"{root.rstrip('/')}/{name}" if root else ""


def is_folder(path: str) -> bool:
    """Return True for a directory that is no link. Raises OSError if that is not known."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
