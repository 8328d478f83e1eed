"""Limits of jobs, from Slurm's configuration: tasks of an array, and the time between signals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portal.cache import SharedAnswer
from portal.errors import PortalError

from ..parse import rights
from . import queries
from .run import SlurmRunner

_TTL = 600.0  # seconds


class JobLimits:
    """Cached limits; slurmctld is queried for the first array. Methods raise nothing."""

    def __init__(self, runner: SlurmRunner, log: Any) -> None:
        self._runner, self._log = runner, log
        self._config = SharedAnswer[Mapping[str, str]](self._ask, ttl=_TTL)

    async def most_array_tasks(self) -> int | None:
        """Return the maximum number of tasks of an array; None if Slurm does not tell, which then
        refuses the submission itself."""
        value = await self._value("MaxArraySize")
        # slurm.conf(5): an index is less than MaxArraySize, and 0 turns arrays off.
        return None if value is None else max(0, value - 1)

    async def kill_wait(self) -> int | None:
        """Return the seconds between SIGTERM and SIGKILL; None if Slurm does not tell."""
        return await self._value("KillWait")

    async def _value(self, name: str) -> int | None:
        try:
            config = await self._config.get()
        except (PortalError, ValueError) as error:
            self._log.warning("%s of Slurm is not known: %s", name, error)
            return None
        value = config.get(name, "").removesuffix(" sec")  # as slurmctld writes KillWait
        return int(value) if value.isdecimal() else None

    async def _ask(self) -> Mapping[str, str]:
        return rights.config((await self._runner.run(queries.CONFIG)).stdout)
