"""Place of ``portal-run`` and its like on the PATH of a session's kernels and terminals."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import MutableMapping
from pathlib import Path

NAMES = ("portal-run", "portal-serve", "portal-why", "portal-pack")


def add_to_path(environ: MutableMapping[str, str], folder: Path) -> None:
    """Make the programs of this Python found by their names: by links in ``folder``, which goes
    last in PATH. Nothing changes for one that is there already, or that this Python lacks."""
    place = folder / "bin"
    linked = False
    for name in NAMES:
        program = Path(sys.executable).parent / name
        if shutil.which(name, path=environ.get("PATH")) or not os.access(program, os.X_OK):
            continue
        with contextlib.suppress(OSError):
            place.mkdir(mode=0o700, exist_ok=True)
            (place / name).symlink_to(program)
            linked = True
    if linked:
        environ["PATH"] = os.pathsep.join([environ.get("PATH", os.defpath), str(place)])
