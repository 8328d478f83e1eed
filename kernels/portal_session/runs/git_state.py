"""State of the git repository in which a source is: its commit, and local changes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

_PATIENCE = 20.0  # seconds: a large tree on a slow file system


def git_state(folder: Path) -> dict[str, Any] | None:
    """Return the ``commit``, and whether a file of the repository is changed (``dirty``, None if
    git does not say so in time); None outside of a repository, and without git."""
    commit = _output(folder, "rev-parse", "--verify", "HEAD")
    if not commit:
        return None
    changes = _output(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit.strip()[:64], "dirty": None if changes is None else bool(changes)}


def _output(folder: Path, *arguments: str) -> str | None:
    """Return what git prints; None if it fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            # It must not write an index that somebody else may hold.
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
