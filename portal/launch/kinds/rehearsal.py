"""A rehearsal of a course's start: a session whose home is thrown away."""

from __future__ import annotations

from .jupyterlab import JupyterLab


class Rehearsal(JupyterLab):
    """Rehearsal, started by the service for everyone, from the course's page."""

    name = "rehearsal"
    title = "a rehearsal of a course"
    prefix = "rehearsal"
    about = "A rehearsal: files that you create in it are deleted."
    offered = welcomes = job_kernels = graded = False
    throwaway = early = True
    starters = "service"
