"""Limits of accounts on TRES minutes (GrpTRESMins) with their use, from slurmctld, cached.

slurmctld and not slurmdbd: these are the numbers by which it holds jobs. It tells them to every
user, unless PrivateData says otherwise. A query is one request, for each account above this one
too.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from portal.cache import SharedAnswer, SharedAnswers
from portal.errors import InvalidRequest, SlurmUnavailable
from portal.models.cluster.account_limits import AccountLimits, TresLimit
from portal.models.session.resources import SLURM_NAME

from ..commands import queries
from ..commands.configuration import Configuration
from ..commands.run import SlurmRunner
from ..parse.association_limits import account_rows

AGE = 120.0  # seconds for which an answer is fresh
PATIENCE = 2.0  # seconds that a caller waits for a first answer
_DEEPEST = 12  # accounts above each other: slurmdbd would allow a loop only by a fault
_ROOT = "root"


class AccountLimitsWatch:
    """Limits by account. ``spend`` counts a request to slurmctld against the budget for them."""

    def __init__(
        self, runner: SlurmRunner, configuration: Configuration, spend: Callable[[float], None]
    ) -> None:
        self._runner, self._configuration, self._spend = runner, configuration, spend
        self._answers = SharedAnswers[str, AccountLimits](
            self._of, most=500, ttl=AGE, patience=PATIENCE
        )

    async def of_account(self, account: str) -> SharedAnswer[AccountLimits]:
        """Return the answer about an account, with its age and error, asked anew if it is old.
        Raises InvalidRequest, SlurmUnavailable, SlurmRefused and TimeoutError if there never was
        one."""
        if not re.fullmatch(SLURM_NAME, account):
            raise InvalidRequest(f"{account!r} is not the name of a Slurm account.", "account")
        answer = self._answers.for_key(account.lower())  # as sacctmgr writes names
        await answer.get()
        return answer

    async def _of(self, account: str) -> AccountLimits:
        limits: list[TresLimit] = []
        name = account
        for _ in range(_DEEPEST):
            self._spend(1)
            output = await self._runner.run(queries.account_limits(name))
            try:
                row = account_rows(output.stdout).get(name)
            except ValueError as error:
                raise SlurmUnavailable(
                    f"The portal cannot read Slurm's limits of the account '{name}': {error}."
                ) from error
            if row is None:
                raise SlurmUnavailable(
                    f"Slurm does not show the portal the account '{name}': it does not exist, or "
                    "PrivateData in slurm.conf hides it."
                )
            limits += row.limits
            if name == _ROOT or not row.parent:
                break
            name = row.parent
        enforce, half_life, resets = await self._configuration.of_limits()
        return AccountLimits(
            limits=tuple(limits),
            enforced=bool(enforce & {"limits", "safe"}) if enforce else None,
            half_life=half_life,
            resets=resets,
        )
