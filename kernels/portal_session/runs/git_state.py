"""State of the git repository in which a source is: its commit, and local changes."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..git_safety import is_own, options

_PATIENCE = 20.0  # seconds: a large tree on a slow file system
# It must not write an index that somebody else may hold, nor fetch what is missing.
_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
}
_FILTER = re.compile(r"filter\..+\.(clean|smudge|process|required)", re.IGNORECASE | re.DOTALL)


def git_state(source: Path) -> dict[str, Any] | None:
    """Return the ``commit``, and whether a file of the repository is changed or the ``source``, a
    file or folder, is not in it (``dirty``, None if git does not say so in time); None outside of a
    repository of this user, and without git.

    No program that the repository names is executed: a file with a filter whose time has changed
    counts as changed.
    """
    try:
        folder = (source if source.is_dir() else source.parent).resolve(strict=True)
        if not is_own(folder):
            return None
    except (OSError, RuntimeError):
        return None
    commit = _output(folder, "rev-parse", "--verify", "HEAD")
    names = _output(folder, "config", "--list", "--name-only", "-z")
    if not commit or names is None:
        return None
    filters = [name for name in names.split("\0") if _FILTER.fullmatch(name)]
    changes = None
    if not any("=" in name for name in filters):  # -c takes the text before the first one
        off = {name: "false" if name.lower().endswith("required") else "" for name in filters}
        status = "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty"
        changes = _output(folder, *status, more=off)
    if changes is not None and not source.is_dir():
        known = _output(folder, "ls-files", "-z", "--", f":(literal){source.name}")
        changes = None if known is None else changes or ("" if known else "untracked")
    return {"commit": commit.strip()[:64], "dirty": None if changes is None else bool(changes)}


def _output(folder: Path, *arguments: str, more: Mapping[str, str] | None = None) -> str | None:
    """Return what git prints; None if it fails. ``more``: further settings."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # Of the user's own trusted folders, none counts: they may be "*".
    settings = {"safe.directory": "", **(more or {})}
    try:
        done = subprocess.run(
            ["git", *options(settings), "-C", str(folder), *arguments],
            env={**own, **_VARIABLES},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
