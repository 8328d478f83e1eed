"""Logs of builds and tests that nobody needs any more: with their environment, by age, by size."""

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
    """Remove logs by their names; what is gone already is no error. Blocks."""
    for name in names:
        if _NAME.fullmatch(name):
            with suppress(OSError):
                Path(directory, name).unlink()


def sweep_logs(directory: str, days: float, keep: Collection[str] = ()) -> list[str]:
    """Remove logs that nobody has written to for ``days``, and cut others to the size at which
    their job is ended; ``keep`` are those of living jobs. The names of those removed. Blocks."""
    before = time.time() - days * 86400
    gone = []
    try:
        paths = sorted(Path(directory).iterdir())
    except OSError:
        return []
    for path in paths:
        name = path.name
        if name in keep or not _NAME.fullmatch(name):
            continue
        with suppress(OSError):
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                continue
            if found.st_mtime < before:
                path.unlink()
                gone.append(name)
            elif found.st_size > MAX_LOG:
                os.truncate(path, MAX_LOG)
    return gone
