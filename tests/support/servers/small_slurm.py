"""The small Slurm of slurm_outputs/small.py, run for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from small import SmallSlurm, which


@contextmanager
def started(slurm: SmallSlurm) -> Iterator[SmallSlurm]:
    """Run ``slurm`` while the block runs; with accounting, its user has the account ``research``.

    Skips the test if a program of Slurm is not installed.
    """
    for program in ("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd"):
        try:
            if slurm.accounting or program not in ("slurmdbd", "mariadbd"):
                which(program)
        except RuntimeError as error:
            pytest.skip(str(error))
    try:
        slurm.start()
        if slurm.accounting:
            slurm.run("sacctmgr", "-i", "add", "account", "research")
            slurm.run("sacctmgr", "-i", "add", "user", slurm.user, "account=research")
        yield slurm
    finally:
        slurm.stop()
