"""Settings of kernels in jobs of their own (kinds/job_kernel.py)."""

from __future__ import annotations

from traitlets import Integer
from traitlets.config import Configurable

from ..setting import setting


class JobKernels(Configurable):
    """Settings of a site for notebooks' kernels that are Slurm jobs of their own."""

    per_user = setting(
        Integer(8, min=0),
        """Maximum number of kernels in jobs of their own that a user has at once, waiting and
        running; 0: none are offered.""",
        "c.JobKernels.per_user = 4",
    )
