"""Removal of logs of builds and tests: with their environment, by age, by size."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from portal.models.catalog.image_job import Work

from .job_monitor import MAX_LOG

_NAME = re.compile(rf"({'|'.join(Work)})-[A-Za-z0-9_-]{{22}}\.log")  # portal.slurm.jobs.job_log


def remove_logs(directory: str, names: Iterable[str]) -> None:
    """Remove logs by their names; a missing one is no error. Blocks."""
    for name in names:
        if _NAME.fullmatch(name):
            with suppress(OSError):
                Path(directory, name).unlink()


def sweep_logs(directory: str, days: float, keep: Collection[str] = ()) -> list[str]:
    """Remove logs not written to for ``days``, and cut others to the size at which their job is
    ended; return the names removed. ``keep``: logs of live jobs. Blocks."""
    before = time.time() - days * 86400
    removed = []
    try:
        paths = sorted(Path(directory).iterdir())
    except OSError:
        return []
    for path in paths:
        name = path.name
        if name in keep or not _NAME.fullmatch(name):
            continue
        with suppress(OSError):
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                continue
            if status.st_mtime < before:
                path.unlink()
                removed.append(name)
            elif status.st_size > MAX_LOG:
                os.truncate(path, MAX_LOG)
    return removed
