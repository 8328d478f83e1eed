"""Estimates from Slurm's answers, and their comparison. Pure, but for the clock."""

from __future__ import annotations

import time

from portal.launch import estimate_words as words
from portal.launch.estimate import from_slurm
from portal.launch.limits.qos import charged, effective_qos
from portal.launch.limits.running_limits import BlockingLimit
from portal.launch.nearby import Candidate
from portal.launch.policy import Associations
from portal.models.session.estimate import Basis, Estimate, Outlook
from portal.models.session.resources import Resources
from portal.models.words import duration
from portal.slurm.commands.start_estimate import NoNodeNow

from .questions import SlurmAnswer

_BETTER = 0.75  # of the wait: what starts later than that is not worth a change


def question_of(resources: Resources, associations: Associations) -> Resources:
    """Return what Slurm's answer depends on: the resources, and whom they are charged to."""
    rows = charged(resources.account, resources.partition, associations or ())
    qos = effective_qos(resources.qos, resources.account, resources.partition, associations)
    account = rows[0].account if rows else resources.account
    return resources.model_copy(update={"account": account, "qos": qos})


def estimate_of(answer: SlurmAnswer | None) -> Estimate | None:
    """Return the estimate from Slurm's answer; None if it says nothing."""
    if answer is None:
        return None
    if answer.start is not None:
        return from_slurm(answer.start, answer.at)
    if isinstance(answer.error, NoNodeNow):
        return Estimate(
            outlook=Outlook.UNKNOWN,
            basis=Basis.SLURM,
            reason="Start time unknown: no suitable node is in service now.",
            made_at=answer.at,
        )
    if answer.error is not None:
        return Estimate(
            outlook=Outlook.REFUSED,
            basis=Basis.SLURM,
            reason=answer.error.message,
            made_at=answer.at,
        )
    return None


def behind_limit(held: BlockingLimit, estimate: Estimate, now: float) -> Estimate:
    """Return the estimate for a person at a limit: not before enough of their jobs have ended."""
    if held.until is None or estimate.starts_at is None:
        return Estimate(
            outlook=Outlook.UNKNOWN,
            basis=Basis.LIMIT,
            reason=f"Start time unknown. {held.reason}",
            made_at=now,
        )
    return Estimate(
        outlook=Outlook.LATER,
        starts_at=max(held.until, estimate.starts_at, now),
        basis=Basis.LIMIT,
        reason=held.reason,
        made_at=now,
    )


def is_better(candidate: Estimate, than: Estimate) -> bool:
    """Check whether ``candidate`` starts clearly earlier than ``than``."""
    if candidate.outlook not in (Outlook.NOW, Outlook.LATER) or candidate.starts_at is None:
        return False
    if candidate.basis is Basis.WAITS:
        return False  # how long others waited is no reason to ask for less
    if candidate.outlook is Outlook.NOW or than.starts_at is None:
        return True
    now = time.time()
    return candidate.starts_at - now < _BETTER * (than.starts_at - now)


def label_of(candidate: Candidate) -> str:
    """Return the difference of a nearby choice, as its button says it."""
    return words.choice(candidate.changes, duration(candidate.resources.time or 0))
