"""Forecasts: how long a limit on GPU-hours lasts at the pace of the last seven days."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from math import log

from ..bodies import BudgetUse

DAY = 86400.0
WEEK = 7 * DAY
_FAR = 10 * 365 * DAY  # a limit that lasts longer has no end that means anything


def pace_start(now: float) -> float:
    """Return from when on use counts for the pace: the beginning of the UTC day six days before
    ``now`` (Unix seconds), since use is recorded by such days."""
    day = datetime.fromtimestamp(now, UTC).date() - timedelta(days=6)
    return datetime.combine(day, time.min, UTC).timestamp()


def weekly_pace(hours: float, now: float, began: float = 0.0) -> float:
    """Return the hours a week of which ``hours`` were used since ``pace_start``. What ``began``
    only after that has a pace of the days since then, of one at least."""
    return hours / max(DAY, now - max(pace_start(now), began)) * WEEK


def used_up_at(
    limit: float, used: float, weekly: float, now: float, half_life: float | None = None
) -> float | None:
    """Return when ``used`` reaches ``limit`` (hours) at the pace ``weekly``; None: never, or in
    more than ten years.

    ``half_life``: seconds in which half of the use is forgotten, as Slurm does with
    PriorityDecayHalfLife. The use then grows towards the level at which as much is forgotten as
    added, and a limit above that is never reached.
    """
    if used >= limit:
        return now
    if weekly <= 0:
        return None
    pace = weekly / WEEK
    if half_life:
        life = half_life / log(2)  # seconds in which the use falls to a part of 1/e
        level = pace * life
        if level <= limit:
            return None
        left = life * log((level - used) / (level - limit))
    else:
        left = (limit - used) / pace
    return now + left if left < _FAR else None


def budget_use(budget: float | None, used: float, weekly: float, now: float) -> BudgetUse:
    """Return the use of a budget at ``now`` (Unix seconds), and how long it lasts."""
    until = None if budget is None else used_up_at(budget, used, weekly, now)
    return BudgetUse(budget=budget, used=used, weekly=weekly, until=until)


def end_of(last: date) -> float:
    """Return when the day ``last`` ends where the portal runs (Unix seconds)."""
    return datetime.combine(last + timedelta(days=1), time.min).timestamp()
