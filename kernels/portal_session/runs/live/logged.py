"""Pictures and tables that a point has logged (`portal_metrics`), as files in its folder: they are
sent to the portal when they have changed."""

from __future__ import annotations

import base64
import errno
import json
import math
import os
import re
import stat
import threading
from pathlib import Path
from typing import Any, NamedTuple

from ...service import Service, ServiceError
from ..disk import open_regular

FOLDER = "logged"  # in the point's folder
_PATH = "session/points/logged"
# What the portal takes (portal/models/session/run_logged.py); of further files, the first by name
# are shown.
_MOST = 12  # pictures, and tables
_LARGEST = 1024 * 1024  # bytes of all
_MOST_ROWS = 501
_MOST_COLUMNS = 50
_LONGEST = 200  # characters of a cell
_IMAGES = (".png", ".jpg", ".jpeg")
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_MOST_PIXELS = 50_000_000  # of a picture
_NAME = re.compile(r"\w[\w .,()=+-]{0,79}")
# Nothing was logged, or something else than a folder is in its place.
_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_GIVES_UP = frozenset({400, 409, 413, 422})


class LoggedFiles:
    """Files of one point. ``about``: what each sending has (point, attempt)."""

    def __init__(self, service: Service | None, about: dict[str, Any], folder: Path) -> None:
        self._service, self._about, self._folder = service, about, folder / FOLDER
        self._sent: list[Any] = []  # files that the portal has, or does not take
        self._lock = threading.Lock()

    def send(self) -> None:
        """Send all files if one has changed. Blocks; may be called from any thread. What is not
        sent now is sent with the next call."""
        with self._lock:
            try:
                seen, logged = self._look()
            except OSError:
                return  # the disk does not answer: the portal keeps what it has
            if self._service is None or logged is None:
                return
            try:
                self._service.ask("POST", _PATH, {**self._about, "logged": logged})
            except ServiceError as error:
                if error.status not in _GIVES_UP:
                    return
            self._sent = seen

    def _look(self) -> tuple[list[Any], dict[str, Any] | None]:
        """Return the files, and what they have if they have changed. Raises OSError."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            folder = os.open(self._folder, flags)
        except OSError as error:
            if error.errno not in _NO_FOLDER:
                raise
            return [], {"images": {}, "tables": {}} if self._sent else None
        try:
            # All are read in the folder that was opened, whatever its name leads to by then.
            files = _shown_files(folder)
            seen = [(file.name, *file.state) for file in files]
            return seen, None if seen == self._sent else _read(files, folder)
        finally:
            os.close(folder)


class _File(NamedTuple):
    """File that may be shown, by its name; ``shown`` is that of the picture or table."""

    name: str
    shown: str
    is_image: bool
    state: tuple[int, ...]


def _shown_files(folder: int) -> list[_File]:
    """Return the first pictures and tables by name: there may be thousands, of which no more are
    looked at. Raises OSError."""
    images: dict[str, _File] = {}
    tables: dict[str, _File] = {}
    for name in sorted(os.listdir(folder)):
        shown, suffix = Path(name).stem, Path(name).suffix
        is_image = suffix in _IMAGES
        chosen = images if is_image else tables
        full = len(chosen) == _MOST and shown not in chosen
        # One name that the portal does not take would have it refuse all.
        if full or not (is_image or suffix == ".json") or not _NAME.fullmatch(shown):
            continue
        try:
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue  # it was removed just now
        is_own = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid()
        earlier = chosen.get(shown)  # a picture may have been PNG before, and is JPEG now
        if is_own and about.st_size <= _LARGEST:
            state = (about.st_mtime_ns, about.st_size)
            if earlier is None or state > earlier.state:
                chosen[shown] = _File(name, shown, is_image, state)
    return sorted([*images.values(), *tables.values()])


def _read(files: list[_File], folder: int) -> dict[str, Any]:
    images: dict[str, str] = {}
    tables: dict[str, list[list[Any]]] = {}
    room = _LARGEST
    for file in files:
        try:
            with open_regular(file.name, own=True, folder=folder) as opened:
                content = opened.read(room + 1)
        except OSError:
            continue  # it was replaced just now
        if len(content) > room:
            continue
        if file.is_image and _is_picture(content):
            images[file.shown] = base64.b64encode(content).decode()
            room -= len(content)
        elif not file.is_image and (rows := _rows(content)):
            tables[file.shown] = rows
            room -= len(content)
    return {"images": images, "tables": tables}


def _is_picture(content: bytes) -> bool:
    """Return True for what the portal takes as a picture."""
    if not content.startswith(_PNG):
        return content.startswith(_JPEG)
    # Its header has width and height (ISO/IEC 15948, 11.2.2).
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    return width * height <= _MOST_PIXELS


def _rows(content: bytes) -> list[list[Any]]:
    """Return the rows of a table, as far as they are shown; [] of what is none."""
    try:
        rows = json.loads(content)
    except (ValueError, RecursionError):
        return []
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        return []
    return [[_cell(cell) for cell in row[:_MOST_COLUMNS]] for row in rows[:_MOST_ROWS]]


def _cell(cell: Any) -> Any:
    """Return a cell as the portal takes it: numbers that JSON has, and text in one line."""
    if cell is None or isinstance(cell, bool):
        return cell
    if isinstance(cell, (int, float)) and abs(cell) <= 2**53 and math.isfinite(cell):
        return cell
    text = str(cell)[:_LONGEST]
    return "".join(letter if letter.isprintable() else " " for letter in text)
