"""Limits of Slurm on what an account may use together over time (GrpTRESMins)."""

from __future__ import annotations

from .. import Frozen


class TresLimit(Frozen):
    """Limit of an account on one TRES, and its use, in minutes as Slurm counts them.

    ``tres``: "cpu", "gres/gpu", "gres/gpu:v100", "billing" …; ``account``: which has the limit,
    the account itself or one above it.
    """

    account: str
    tres: str
    limit: int
    used: int


class AccountLimits(Frozen):
    """Limits of an account and of those above it.

    ``enforced``: whether Slurm holds jobs for them (AccountingStorageEnforce), None: unknown;
    ``half_life``: seconds in which Slurm forgets half of the use, None: never; ``resets``: the
    period after which it forgets all ("MONTHLY"), "": never.
    """

    limits: tuple[TresLimit, ...]
    enforced: bool | None
    half_life: float | None
    resets: str
