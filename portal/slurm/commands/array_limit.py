"""Maximum number of tasks of an array job, from Slurm's configuration."""

from __future__ import annotations

from typing import Any

from portal.cache import SharedAnswer
from portal.errors import PortalError

from ..parse import rights
from . import queries
from .run import SlurmRunner

_TTL = 600.0  # seconds


class ArrayLimit:
    """Cached limit; slurmctld is queried for the first array."""

    def __init__(self, runner: SlurmRunner, log: Any) -> None:
        self._runner, self._log = runner, log
        self._limit = SharedAnswer[int | None](self._ask, ttl=_TTL)

    async def get(self) -> int | None:
        """Return the maximum number of tasks; None if Slurm does not tell, which then refuses the
        submission itself. Raises nothing."""
        try:
            return await self._limit.get()
        except (PortalError, ValueError) as error:
            self._log.warning("MaxArraySize of Slurm is not known: %s", error)
            return None

    async def _ask(self) -> int | None:
        config = rights.config((await self._runner.run(queries.CONFIG)).stdout)
        value = config.get("MaxArraySize", "")
        # slurm.conf(5): an index is less than MaxArraySize, and 0 turns arrays off.
        return max(0, int(value) - 1) if value.isdigit() else None
