"""GPU-hours that a project has left: of its budget in the portal, and of its account in Slurm."""

from __future__ import annotations

import time
from datetime import date
from typing import Literal

from portal.cache import SharedAnswers
from portal.errors import PortalError
from portal.models import Frozen
from portal.models.cluster.account_limits import AccountLimits, TresLimit
from portal.slurm import Cluster
from portal.store import Store

from ..bodies import BudgetUse
from ..models import StoredProject
from .forecast import budget_use, end_of, pace_start, used_up_at, weekly_pace

_GPUS = "gres/gpu"
_AGE = 120.0  # seconds for which the pace of an account is known: it is a sum over many jobs

First = Literal["", "budget", "slurm", "end"]


class SlurmUse(Frozen):
    """Limit of Slurm on what an account may use (GrpTRESMins), in hours. ``account``: the
    project's or one above it; ``tres``: "gres/gpu", "cpu" …; ``until``: when it is used up at the
    pace of the account's jobs; null: never, or unknown, as for all but the GPUs of the project's
    account."""

    account: str
    tres: str
    limit: float
    used: float
    until: float | None


class ProjectMoney(Frozen):
    """GPU-hours of a project, those of the portal's budget and those of Slurm's account.

    ``weekly``: GPU-hours that the account uses in a week, the project's and others, null without an
    account. ``enforced``: whether Slurm holds jobs for its limits, null if unknown; ``half_life``:
    seconds in which Slurm forgets half of the use, null if it does not; ``resets``: the period
    after which it forgets all, such as "MONTHLY", "" if it does not. ``age``: seconds since Slurm
    was asked, null if it has not answered; ``problem``: why the newest question was not answered.
    ``first``: what ends first, at ``first_at``: "budget", "slurm", "end" (the project), "" if
    nothing is known to end.
    """

    budget: BudgetUse
    ends: date | None
    account: str | None
    slurm: tuple[SlurmUse, ...] = ()
    weekly: float | None = None
    enforced: bool | None = None
    half_life: float | None = None
    resets: str = ""
    age: float | None = None
    problem: str = ""
    first: First = ""
    first_at: float | None = None


class ProjectFunds:
    """Reader of what projects have left. Slurm is asked when somebody looks, and its last answer
    stays, with its age, while it is away."""

    def __init__(self, store: Store, cluster: Cluster) -> None:
        self._store, self._cluster = store, cluster
        self._paces = SharedAnswers[str, float](self._pace, most=500, ttl=_AGE)

    async def budget_of(self, stored: StoredProject, now: float) -> BudgetUse:
        """Return the use of a project's budget. Raises StoreUnavailable."""
        usage, name = self._store.usage, stored.name
        lately = await usage.of_space(name, pace_start(now))
        pace = weekly_pace(lately, now, stored.created_at)
        return budget_use(stored.project.budget, await usage.of_space(name), pace, now)

    async def of_project(self, stored: StoredProject) -> ProjectMoney:
        """Return what a project has left. Raises StoreUnavailable."""
        now, project = time.time(), stored.project
        money = ProjectMoney(
            budget=await self.budget_of(stored, now), ends=project.ends, account=project.account
        )
        if project.account:
            pace = await self._paces.for_key(project.account).get()
            said = await self._from_slurm(project.account, pace, now)
            money = money.model_copy(update={"weekly": pace, **said})
        return money.model_copy(update=dict(zip(("first", "first_at"), _first(money), strict=True)))

    async def _pace(self, account: str) -> float:
        now = time.time()
        return weekly_pace(await self._store.usage.of_account(account, pace_start(now)), now)

    async def _from_slurm(self, account: str, pace: float, now: float) -> dict[str, object]:
        """Return the fields of ProjectMoney that Slurm tells."""
        try:
            answer = await self._cluster.account_limits(account)
        except (PortalError, TimeoutError) as error:
            return {"problem": _words(error)}
        limits = answer.last
        assert limits is not None
        return {
            "slurm": tuple(_use(limit, limits, account, pace, now) for limit in limits.limits),
            "enforced": limits.enforced,
            "half_life": limits.half_life,
            "resets": limits.resets,
            "age": answer.age,
            "problem": _words(answer.error) if answer.error else "",
        }


def _words(error: BaseException) -> str:
    if isinstance(error, PortalError):
        return error.message
    return "Slurm does not answer."


def _use(
    limit: TresLimit, limits: AccountLimits, account: str, pace: float, now: float
) -> SlurmUse:
    hours, used, until = limit.limit / 60, limit.used / 60, None
    if used >= hours:
        until = now
    elif limit.tres == _GPUS and limit.account == account.lower():
        until = used_up_at(hours, used, pace, now, limits.half_life)
    return SlurmUse(account=limit.account, tres=limit.tres, limit=hours, used=used, until=until)


def _first(money: ProjectMoney) -> tuple[First, float | None]:
    """Return what ends first, and when."""
    ends: list[tuple[float, First]] = []
    if money.budget.until is not None:
        ends.append((money.budget.until, "budget"))
    if money.enforced is not False:
        ends += [(use.until, "slurm") for use in money.slurm if use.until is not None]
    if money.ends:
        ends.append((end_of(money.ends), "end"))
    if not ends:
        return "", None
    at, what = min(ends)
    return what, at
