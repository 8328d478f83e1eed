"""Data that slurmdbd hides from the portal's own account: PrivateData of slurmdbd.conf(5).

With "users" in it, slurmdbd gives everyone but operators their own rows only, silently and with
status 0 (as_mysql_get_users in src/plugins/accounting_storage/mysql/as_mysql_user.c): an answer
about somebody else is empty, just as for an unknown user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from portal.cache import SharedAnswer
from portal.errors import SlurmRefused, SlurmUnavailable

from ..commands import queries
from ..commands.run import SlurmRunner, own_account
from ..parse import rights

_SEES_ALL = ("Operator", "Administrator")


class PrivateData:
    """Cached answer about PrivateData, queried on demand and at most once in ``ttl()`` seconds."""

    def __init__(self, runner: SlurmRunner, ttl: Callable[[], float]) -> None:
        self._runner = runner
        self._hidden = SharedAnswer(self._ask, ttl=lambda _: ttl(), keep=False)

    async def hidden(self) -> frozenset[str]:
        """Return the words of PrivateData that apply to this process's account; none if it may see
        everything, or Slurm does not say. Raises SlurmUnavailable."""
        return await self._hidden.get()

    async def _ask(self) -> frozenset[str]:
        try:
            output = await self._runner.run(queries.ACCOUNTING_CONFIG)
            config = rights.accounting_config(output.stdout)
        except (SlurmRefused, ValueError):
            return frozenset()
        words = config.get("PrivateData", "none").lower().split(",")
        private = frozenset(words) - {"none", ""}
        if not private:
            return private
        uid, name = await asyncio.to_thread(own_account)
        if uid == 0 or name == config.get("SlurmUser", "").partition("(")[0]:
            return frozenset()
        level = ""
        if name:
            output = await self._runner.run(queries.admin_level(name))
            level = rights.admin_levels(output.stdout).get(name, "")
        return frozenset() if level in _SEES_ALL else private

    async def check_users(self) -> None:
        """Raise SlurmUnavailable if an empty answer about somebody says nothing of them."""
        if "users" in await self.hidden():
            raise SlurmUnavailable(
                "Slurm's accounting does not show the portal which accounts users may use "
                "(PrivateData=users in slurmdbd.conf). An admin must make the portal's "
                "account an Operator; 'portal doctor' shows the command."
            )
