"""Kernels with resources that the user chose: a file in the home, so that a notebook finds its
kernelspec in the next session too."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from .record import BadRecord, folder, write_file

NAME = "choices"  # in the folder of the records; no record has this name
MOST = 6  # the newest; each is a card in JupyterLab's launcher
_LARGEST = 16 * 1024  # bytes


def read(home: Path | None = None) -> list[dict[str, Any]]:
    """Return the requests, the newest first; none of a file that is missing or damaged. They are
    as the home has them: check them like those of a page."""
    try:
        with (folder(home) / NAME).open("rb") as file:
            content = json.loads(file.read(_LARGEST))
    except (OSError, BadRecord, ValueError, RecursionError):
        return []
    listed = content if isinstance(content, list) else []
    return [request for request in listed if isinstance(request, dict)][:MOST]


def add_request(request: dict[str, Any], home: Path | None = None) -> None:
    """Make ``request`` the newest. A home that cannot be written to leaves the file as it was."""
    others = [former for former in read(home) if former != request]
    text = json.dumps([request, *others][:MOST])
    with suppress(BadRecord):
        write_file(folder(home) / NAME, text)
