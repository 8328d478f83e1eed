"""Notebooks that several people write in at once (jupyter-collaboration): in a course's room only.

Where its extensions are on, the server saves notebooks, and not the page. So config/ has them off,
in environments that bring them along, too, and `SETTINGS` has them on. In a room there is nothing
of what counts on one person at a time: no terminals, no writing of outputs for pages that are gone
(kernels/portal_session/notebooks/unattended.py).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, MutableMapping
from importlib.util import find_spec
from pathlib import Path

SETTINGS = Path(__file__).parent / "room_settings"


def is_room(environ: Mapping[str, str]) -> bool:
    """Whether this session is a room of its course."""
    return environ.get("PORTAL_COURSE_KIND") == "room"


def set_settings(environ: MutableMapping[str, str]) -> None:
    """In a room, switches jupyter-collaboration on. Call it before Jupyter is imported."""
    if is_room(environ):
        others = [path for path in [environ.get("JUPYTER_CONFIG_PATH")] if path]
        environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join([str(SETTINGS), *others])


def arguments(environ: Mapping[str, str]) -> list[str]:
    """Arguments of a room's server; none for others. Raises ImportError without the package."""
    if not is_room(environ):
        return []
    if find_spec("jupyter_server_ydoc") is None:
        # Without it everybody's page would save over the others'.
        raise ImportError("a course's room needs 'jupyter-collaboration', which is not in it")
    # What is of no use after this session; SQLite's locks do not work on every home's file system.
    folder = tempfile.mkdtemp(prefix="portal-room-")
    return [
        "--ServerApp.terminals_enabled=False",
        f"--SQLiteYStore.db_path={folder}/documents.db",
        f"--BaseFileIdManager.db_path={folder}/files.db",
        f"--YDocExtension.session_store_path={folder}/sessions.json",
    ]
