"""Place of ``portal-run`` on the PATH of a session's kernels and terminals."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import MutableMapping
from pathlib import Path

NAME = "portal-run"


def add_to_path(environ: MutableMapping[str, str], folder: Path) -> None:
    """Make the program of this Python found by its name: by a link in ``folder``, which goes last
    in PATH. Nothing changes if there is one already, or this Python has none."""
    program = Path(sys.executable).parent / NAME
    if shutil.which(NAME, path=environ.get("PATH")) or not os.access(program, os.X_OK):
        return
    place = folder / "bin"
    with contextlib.suppress(OSError):
        place.mkdir(mode=0o700, exist_ok=True)
        (place / NAME).symlink_to(program)
        environ["PATH"] = os.pathsep.join([environ.get("PATH", os.defpath), str(place)])
