"""Log folders of a TensorBoard: which may be read, and how they are walked."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from ..programs.runtime import Place
from . import record
from .folders import FolderRefused, is_below, resolve, roots_of, walk
from .watch import Watch

LEAST_PAUSE = 5.0  # seconds between two looks for new data: TensorBoard's own default


def check_folders(flags: Any) -> list[str]:
    """Return the folders that TensorBoard's options name, which must be below the user's roots.

    URLs (``s3://…``) are left to TensorBoard. Raises FolderRefused.
    """
    roots = roots_of(os.environ)
    named = [flags.logdir] if flags.logdir else (flags.logdir_spec or "").split(",")
    folders = []
    for name in filter(None, named):
        # In --logdir_spec, "run:/path" gives the run a name (data_ingester.py).
        path = name.partition(":")[2] if not flags.logdir and ":/" in name[1:] else name
        if "://" in name:
            folders.append(name)
            continue
        try:
            folders.append(resolve(path, roots, str(Path.cwd())))
        except FolderRefused:
            # It may be created later: TensorBoard waits for it.
            real = os.path.realpath(os.path.expanduser(path))  # noqa: PTH111
            if os.path.lexists(real) or not is_below(real, roots):
                raise
            folders.append(real)
    return folders


def describe(place: Place, folders: list[str]) -> None:
    """Record what was started from a notebook, as the portal's page does for its own."""
    names = [Path(folder).name or folder for folder in folders]
    about = {
        "name": ", ".join(names[:3]) or "TensorBoard",
        "folders": folders,
        "started": time.time(),
        "origin": "notebook",
    }
    record.write(place.about, about)


def guard_walk(watch: Watch) -> None:
    """Replace TensorBoard's walk through folders, which follows every link, with ours."""
    from tensorboard.backend.event_processing import io_wrapper

    roots = roots_of(os.environ)
    is_events = io_wrapper.IsSummaryEventsFile
    counted: set[str] = set()

    def guarded_walk(top: str) -> Any:
        for folder, files in walk(top, roots, watch.skipped):
            events = [path for path in files if "tfevents" in os.path.basename(path)]  # noqa: PTH119
            for path in events:
                if path not in counted:
                    counted.add(path)
                    watch.found(path)
            yield folder, events

    def guarded_events(path: str) -> bool:
        if os.path.islink(path) and not is_below(os.path.realpath(path), roots):  # noqa: PTH114
            watch.skipped(path)
            return False
        return bool(is_events(path))

    io_wrapper.ListRecursivelyViaWalking = guarded_walk
    io_wrapper.IsSummaryEventsFile = guarded_events
