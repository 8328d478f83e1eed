"""Last activity in a session, as its own server saw it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .. import Frozen

_Age = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class SessionActivity(Frozen):
    """Ages of the last activities, in seconds: a wrong or adjusted clock, there or here, changes
    none of them.

    ``kernel``: since a kernel executed something; ``terminal``: since a terminal wrote or was
    written to; ``processes``: since processes in both used CPU time. If that never happened: since
    the server began; None: unknown.
    """

    busy_kernels: Annotated[int, Field(ge=0, le=100_000, strict=True)] = 0
    kernel: _Age | None = None
    terminal: _Age | None = None
    processes: _Age | None = None

    @property
    def age(self) -> float | None:
        """Seconds since the latest activity, 0 while a kernel is busy; None if one is unknown."""
        if self.busy_kernels:
            return 0.0
        ages = (self.kernel, self.terminal, self.processes)
        known = [age for age in ages if age is not None]
        return min(known) if len(known) == len(ages) else None
