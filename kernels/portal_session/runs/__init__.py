"""Runs: a notebook or script executed once for each of its points, as one Slurm array job.

`command` is ``portal-run``, in a session: it freezes the source and the points (`plan`), and asks
the portal through the session's broker. `point` is the program of each task of the array.
"""

from __future__ import annotations


class RunError(Exception):
    """Run that cannot be made or executed; the text is a sentence for the user."""
