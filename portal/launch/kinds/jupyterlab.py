"""JupyterLab, the default kind of session."""

from __future__ import annotations

from typing import Any

from .kind import Kind


class JupyterLab(Kind):
    """A person's own session."""

    name = "jupyterlab"
    title = "JupyterLab"
    offered = True
    welcomes = True
    job_kernels = True

    def own(self) -> dict[str, Any]:
        return {}
