"""When something was done in a session last, as its own server saw it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .. import Frozen

_Age = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class SessionActivity(Frozen):
    """Ages in seconds: a clock that is wrong or set anew, there or here, changes none of them.

    ``kernel``: since a kernel executed something; ``terminal``: since a terminal wrote or was
    written to; ``processes``: since what runs in both used CPU time. Where that never happened,
    since the server began; None is unknown.
    """

    busy_kernels: Annotated[int, Field(ge=0, le=100_000, strict=True)] = 0
    kernel: _Age | None = None
    terminal: _Age | None = None
    processes: _Age | None = None

    @property
    def age(self) -> float | None:
        """Seconds since the last of all that; None where one of them is not known."""
        if self.busy_kernels:
            return 0.0
        ages = (self.kernel, self.terminal, self.processes)
        known = [age for age in ages if age is not None]
        return min(known) if len(known) == len(ages) else None
