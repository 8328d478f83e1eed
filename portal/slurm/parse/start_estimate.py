"""Output of ``sbatch --test-only`` (on stderr): the time at which a job would start."""

from __future__ import annotations

import re

from .values import timestamp

# slurm_job_will_run in src/api/allocate.c; recorded on each version (tests/slurm_outputs/). 26.05
# writes "to start at TIME a using", or "to start at TIME on cluster NAME a using". Lines of a
# site's job_submit plugin can stand before it.
_STARTS = re.compile(r"(?m)^sbatch: Job [0-9]+ to start at (\S+)(?: on cluster \S+)?(?: a)? using ")


def expected_start(stderr: str) -> float | None:
    """Return the Unix seconds of "sbatch: Job 7 to start at 1795296450 using 1 processors on …",
    None without such a line; the time is local, "2026-11-21T21:27:30", if SLURM_TIME_FORMAT did
    not reach sbatch."""
    match = _STARTS.search(stderr)
    return timestamp(match[1]) if match else None
