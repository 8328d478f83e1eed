"""Files of JupyterLab and IPython in the home that are damaged, and set aside.

Both write their files in place, so that a full disk leaves half of one. JupyterLab then answers
for all settings or workspaces with an error, and its page stays blank, in every environment;
IPython's kernels end at their start if pages of the history are missing.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Callable

_ENDING = ".damaged"  # no program reads files with it
_LARGEST = 4_000_000  # bytes of a file that is read
_MOST = 1000  # files that are read
_NAMES = 100  # files of one name that are kept
_PAUSE = 0.05  # seconds after which a file that is being written is read again
_LOCK = 0.2  # seconds to wait while a kernel writes
_DEFAULTS = "JupyterLab uses its defaults."
_WITHOUT = "JupyterLab goes without this extension until it is installed again."
_notices: list[str] = []


def take_notices() -> list[str]:
    """Return the sentences about files that were set aside since the last call."""
    notices = _notices[:]
    _notices.clear()
    return notices


def set_aside_of_lab(environ: Mapping[str, str], config: Path, data: Path) -> None:
    """Rename the damaged files that JupyterLab reads for its page: settings, workspaces, page
    configuration and descriptions of extensions. ``config``, ``data``: Jupyter's folders."""
    settings = Path(environ.get("JUPYTERLAB_SETTINGS_DIR") or config / "lab/user-settings")
    workspaces = Path(environ.get("JUPYTERLAB_WORKSPACES_DIR") or config / "lab/workspaces")
    kinds: list[tuple[Path, str, Callable[[str], bool], str]] = [
        (settings, "**/*.jupyterlab-settings", _are_settings, _DEFAULTS),
        (workspaces, "*.jupyterlab-workspace", _is_workspace, _DEFAULTS),
        (config / "labconfig", "page_config.json", _is_object, _DEFAULTS),
        (config / "labconfig", "page_config.d/*.json", _is_object, _DEFAULTS),
        (data / "labextensions", "*/package.json", _is_object, _WITHOUT),
        (data / "labextensions", "@*/*/package.json", _is_object, _WITHOUT),
    ]
    left = _MOST
    for folder, pattern, is_sound, effect in kinds:
        for path in _files(folder, pattern):
            left -= 1
            if left < 0:
                return
            _check(path, is_sound, effect)


def set_aside_history(environ: Mapping[str, str]) -> None:
    """Rename IPython's histories in which a kernel could not write."""
    folder = environ.get("IPYTHONDIR", "")
    for path in _files(Path(folder), "profile_*/history.sqlite") if folder else ():
        with contextlib.suppress(OSError):
            status = path.stat()
            # Points of a run start at once, and only the first shall find it.
            if _is_unusable(path) and path.stat().st_ino == status.st_ino:
                _set_aside(path, "Its kernels begin a new one.")


def _files(folder: Path, pattern: str) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from sorted(path for path in folder.glob(pattern) if path.is_file())


def _check(path: Path, is_sound: Callable[[str], bool], effect: str) -> None:
    with contextlib.suppress(OSError):
        if path.stat().st_size > _LARGEST:
            return
        content = path.read_bytes()
        if _is_read(content, is_sound):
            return
        time.sleep(_PAUSE)
        if path.read_bytes() == content:
            _set_aside(path, effect)


def _is_read(content: bytes, is_sound: Callable[[str], bool]) -> bool:
    try:
        return is_sound(content.decode())
    except (ValueError, RecursionError):
        return False


def _is_object(text: str) -> bool:
    return not text.strip() or isinstance(json.loads(text), dict)


def _are_settings(text: str) -> bool:
    """Return True for an object as JupyterLab reads it (jupyterlab_server's settings_utils):
    JSON5, or nothing at all. Raises ValueError."""
    if not text:
        return True
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        try:
            import json5
        except ImportError:
            return True  # nobody can tell
        return isinstance(json5.loads(text), dict)


def _is_workspace(text: str) -> bool:
    """Return True for what jupyterlab_server's workspaces_handler can list. Raises ValueError."""
    workspace: Any = json.loads(text)
    metadata = workspace.get("metadata") if isinstance(workspace, dict) else None
    return isinstance(metadata, dict) and "id" in metadata


def _is_unusable(path: Path) -> bool:
    """Return True if SQLite finds the file damaged when it writes what IPython's kernels write
    (IPython.core.history), which is undone. A locked or new file is none."""
    try:
        import sqlite3
    except ImportError:  # IPython then keeps no history
        return False
    try:
        connection = sqlite3.connect(path, timeout=_LOCK, isolation_level=None)
    except sqlite3.Error:
        return False
    try:
        connection.execute("BEGIN IMMEDIATE")
        cursor = connection.execute("INSERT INTO sessions VALUES (NULL, 0, NULL, NULL, '')")
        session = cursor.lastrowid
        connection.execute("INSERT INTO history VALUES (?, 1, '', '')", (session,))
        connection.execute("INSERT INTO output_history VALUES (?, 1, '')", (session,))
        connection.execute("ROLLBACK")
    except sqlite3.DatabaseError as error:
        # Its subclasses are about locks, tables of other versions, and a full disk.
        return type(error) is sqlite3.DatabaseError
    finally:
        connection.close()
    return False


def _set_aside(path: Path, effect: str) -> None:
    """Rename ``path``, and keep a sentence that ends with ``effect``. Raises OSError."""
    for number in range(1, _NAMES):
        aside = path.with_name(f"{path.name}{_ENDING}{number if number > 1 else ''}")
        if not os.path.lexists(aside):
            path.rename(aside)
            _notices.append(f"{path.name} was damaged and is now {aside.name}. {effect}")
            return
