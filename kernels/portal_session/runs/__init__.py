"""Runs: a notebook or script executed once for each of its points, as one Slurm array job.

JupyterLab's dialog (`lab`) and ``portal-run`` (`portal_run`) make a request (`request`), of which
`start` freezes the source and the points (`plan`), and asks the portal for the job. `point` is the
program of each task of the array.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class RunError(Exception):
    """Run that cannot be made or executed; the text is a sentence for the user. ``field``: the
    option that is wrong, "values:NAME" for a parameter's values, or ""."""

    field = ""


@contextmanager
def about(field: str) -> Iterator[None]:
    """Give the RunError of the block this ``field``, unless it has one."""
    try:
        yield
    except RunError as error:
        error.field = error.field or field
        raise
