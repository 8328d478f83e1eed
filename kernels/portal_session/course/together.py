"""Notebooks that several people edit at once (jupyter-collaboration): in a course's room only.

With its extensions, the server saves notebooks instead of the page. So config/ switches them off,
even in environments that bring them along, and `SETTINGS` switches them on. A room has none of the
features that assume one person at a time: no terminals, no writing of outputs for pages that are
gone (kernels/portal_session/notebooks/unattended.py).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, MutableMapping
from importlib.util import find_spec
from pathlib import Path

SETTINGS = Path(__file__).parent / "room_settings"


def is_room(environ: Mapping[str, str]) -> bool:
    """Return True if this session is a room of its course."""
    return environ.get("PORTAL_COURSE_KIND") == "room"


def set_settings(environ: MutableMapping[str, str]) -> None:
    """Switch jupyter-collaboration on in a room. Call this before Jupyter is imported."""
    if is_room(environ):
        existing = [path for path in [environ.get("JUPYTER_CONFIG_PATH")] if path]
        environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join([str(SETTINGS), *existing])


def arguments(environ: Mapping[str, str]) -> list[str]:
    """Return the arguments of a room's server; [] for others. Raises ImportError if the package is
    missing."""
    if not is_room(environ):
        return []
    if find_spec("jupyter_server_ydoc") is None:
        # Without it, each page would overwrite the others' changes.
        raise ImportError("a course's room needs 'jupyter-collaboration', which is not installed")
    # For this session only; SQLite's locks do not work on every home's file system.
    folder = tempfile.mkdtemp(prefix="portal-room-")
    return [
        "--ServerApp.terminals_enabled=False",
        f"--SQLiteYStore.db_path={folder}/documents.db",
        f"--BaseFileIdManager.db_path={folder}/files.db",
        f"--YDocExtension.session_store_path={folder}/sessions.json",
    ]
