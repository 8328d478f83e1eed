"""Pictures and tables that a point has logged (`portal_metrics`), as files in its folder: they are
sent to the portal when they have changed."""

from __future__ import annotations

import base64
import json
import math
import threading
from pathlib import Path
from typing import Any

from ...service import Service, ServiceError
from ..disk import read_regular

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
            files = self._files()
            seen = [(path.name, about.st_size, about.st_mtime_ns) for path, about in files]
            if self._service is None or seen == self._sent:
                return
            try:
                logged = self._read([path for path, _ in files])
                self._service.ask("POST", _PATH, {**self._about, "logged": logged})
            except ServiceError as error:
                if error.status not in _GIVES_UP:
                    return
            self._sent = seen

    def _files(self) -> list[Any]:
        if self._folder.is_symlink():
            return []
        try:
            paths = sorted(self._folder.iterdir())
            return [(path, path.lstat()) for path in paths if not path.name.startswith(".")]
        except OSError:
            return []  # nothing was logged, or a file was replaced just now

    def _read(self, paths: list[Path]) -> dict[str, Any]:
        images: dict[str, str] = {}
        tables: dict[str, list[list[Any]]] = {}
        room = _LARGEST
        for path in paths:
            try:
                content = read_regular(path, _LARGEST, own=True)
            except OSError:
                continue  # no file of this user's
            if len(content) > room:
                continue
            if path.suffix in _IMAGES and len(images) < _MOST:
                images[path.stem] = base64.b64encode(content).decode()
                room -= len(content)
            elif path.suffix == ".json" and len(tables) < _MOST and (rows := _rows(content)):
                tables[path.stem] = rows
                room -= len(content)
        return {"images": images, "tables": tables}


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
