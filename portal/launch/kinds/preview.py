"""A preview of a course: its staff see what a student would."""

from __future__ import annotations

from .jupyterlab import JupyterLab


class Preview(JupyterLab):
    """Preview with a throwaway home: it begins as every student does."""

    name = "preview"
    title = "a preview of a course"
    prefix = "preview"
    about = "A preview of what students of the course see."
    offered = welcomes = job_kernels = graded = False
    throwaway = True
    starters = ""
