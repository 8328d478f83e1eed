"""Settings of slurm.conf that the portal reads: the size of arrays, the time between signals, how
long a node takes to be switched on, and how limits of accounts are enforced."""

from __future__ import annotations

import re
from typing import Any

from portal.cache import SharedAnswer
from portal.errors import PortalError

from ..parse import rights
from ..parse.values import seconds
from . import queries
from .run import SlurmRunner

_TTL = 600.0  # seconds


class Configuration:
    """Cached settings; slurmctld is queried when one is needed. Methods raise nothing."""

    def __init__(self, runner: SlurmRunner, log: Any) -> None:
        self._runner, self._log = runner, log
        self._settings = SharedAnswer[dict[str, str]](self._ask, ttl=_TTL)

    async def most_array_tasks(self) -> int | None:
        """Return the maximum number of tasks of an array; None if Slurm does not tell, which then
        refuses the submission itself."""
        value = await self._setting("MaxArraySize")
        # slurm.conf(5): an index is less than MaxArraySize, and 0 turns arrays off.
        return max(0, int(value) - 1) if value.isdigit() else None

    async def resume_seconds(self) -> int | None:
        """Return ResumeTimeout, the seconds in which a node that is switched on must be ready;
        None if Slurm does not tell."""
        return seconds((await self._setting("ResumeTimeout")).removesuffix(" sec"))

    async def kill_wait(self) -> int | None:
        """Return KillWait, the seconds between SIGTERM and SIGKILL; None if Slurm does not tell."""
        value = (await self._setting("KillWait")).removesuffix(" sec")
        return int(value) if value.isdecimal() else None

    async def of_limits(self) -> tuple[frozenset[str], float | None, str]:
        """Return what AccountingStorageEnforce enforces (empty: unknown), and how Slurm forgets the
        use of accounts: PriorityDecayHalfLife in seconds (None: it does not) and
        PriorityUsageResetPeriod ("": never). Only the multifactor plugin does, slurm.conf(5)."""
        enforced = await self._setting("AccountingStorageEnforce")
        half_life = seconds(await self._setting("PriorityDecayHalfLife")) or None
        resets = await self._setting("PriorityUsageResetPeriod")
        words = frozenset(word.lower() for word in re.split(r"[\s,]+", enforced) if word)
        return words, half_life, "" if resets.upper() in ("NONE", "(NULL)") else resets.upper()

    async def _setting(self, name: str) -> str:
        try:
            return (await self._settings.get()).get(name, "")
        except (PortalError, ValueError) as error:
            self._log.warning("%s of Slurm is not known: %s", name, error)
            return ""

    async def _ask(self) -> dict[str, str]:
        return rights.config((await self._runner.run(queries.CONFIG)).stdout)
