"""Folders of this user's runs, by the runs' ids: a small file for each below the home. So a session
finds them without a search, when the portal has lost what is in them."""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from pathlib import Path

from ..chosen_id import is_id

FOLDER = ".portal/.runs"  # below the home; no environment's name begins with a dot
MOST = 2_000  # the newest; a run that is older than these is not restored
_LARGEST = 4096  # bytes of a file


def note_folder(id: str, folder: Path) -> None:
    """Note the folder of a new run. A home that takes no file costs nothing but a restoration."""
    with suppress(OSError, ValueError):
        place = _place()
        path, new = place / id, place / f".{id}.new"
        if is_id(id):
            new.write_text(json.dumps({"folder": str(folder)}))
            new.replace(path)


def noted_folders() -> dict[str, Path]:
    """Return the folders by the ids of the runs, the newest first, MOST at most. Those that are
    gone are forgotten."""
    folders: dict[str, Path] = {}
    try:
        place = _place()
        names = [path.name for path in place.iterdir() if is_id(path.name)]
        newest = sorted(names, key=lambda name: -(place / name).lstat().st_mtime)
    except OSError:
        return {}
    for name in newest:
        path = place / name
        folder = _read(path)
        if len(folders) < MOST and folder is not None and folder.is_dir():
            folders[name] = folder
        else:
            with suppress(OSError):
                path.unlink()
    return folders


def is_own(path: Path) -> bool:
    """Return True if a file or folder is this user's, and no link."""
    try:
        status = path.lstat()
    except OSError:
        return False
    plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return plain and status.st_uid == os.geteuid()


def _place() -> Path:
    """Return the folder of the notes, of mode 700. Raises OSError, ValueError if it is not this
    user's."""
    place = Path.home() / FOLDER
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_own(place):
        raise ValueError
    return place


def _read(path: Path) -> Path | None:
    try:
        with path.open() as file:
            folder = Path(json.loads(file.read(_LARGEST))["folder"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return folder if folder.is_absolute() else None
