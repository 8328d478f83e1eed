"""Settings of kernels in jobs of their own (kind.py)."""

from __future__ import annotations

import re
from typing import Any

from traitlets import Integer, TraitError, Unicode, validate
from traitlets.config import Configurable

from portal.setting import setting

_RANGE = re.compile(r"([0-9]{4,5})-([0-9]{4,5})")
_PORTS = (1024, 65535)


class JobKernels(Configurable):
    """Settings of a site for notebooks' kernels that are Slurm jobs of their own."""

    per_user = setting(
        Integer(8, min=0),
        """Maximum number of kernels in jobs of their own, waiting and running, that a user can
        have at once; 0: none are offered.""",
        "c.JobKernels.per_user = 4",
    )

    ports = setting(
        Unicode(""),
        """Range of TCP ports, from 1024 to 65535, on the sessions' nodes to which the jobs of
        kernels connect, one port for each kernel on a node; "": any free port. Other nodes must be
        able to reach these ports.""",
        'c.JobKernels.ports = "40000-40999"',
    )

    @validate("ports")
    def _a_range(self, proposal: Any) -> str:
        value = str(proposal.value)
        match = _RANGE.fullmatch(value)
        if value and not (match and _PORTS[0] <= int(match[1]) <= int(match[2]) <= _PORTS[1]):
            raise TraitError(
                f"c.JobKernels.ports must be a range of ports from {_PORTS[0]} to {_PORTS[1]}, "
                f"such as '40000-40999', not '{value}'."
            )
        return value
