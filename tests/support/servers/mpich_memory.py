"""Shared memory that MPICH leaves on a node when its ranks are killed. It is named by the job, and
a new Slurm begins with the same numbers of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def no_memory_of_mpich() -> Iterator[None]:
    """Remove it before and after the block."""
    _remove()
    try:
        yield
    finally:
        _remove()


def _remove() -> None:
    for file in Path("/dev/shm").glob("mpich_shm_*"):
        file.unlink(missing_ok=True)
