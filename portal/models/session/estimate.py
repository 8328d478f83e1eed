"""When a session would start: what is expected, who says so, and choices that start earlier."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from .. import Frozen


class Outlook(StrEnum):
    """What can be said."""

    NOW = "now"
    LATER = "later"  # at ``starts_at``
    UNKNOWN = "unknown"
    REFUSED = "refused"  # it may not be asked for, or Slurm would not take it


class Basis(StrEnum):
    """Who says so."""

    SLURM = "slurm"  # sbatch --test-only
    LARGER = "larger"  # the same for a choice that asks for more
    SNAPSHOT = "snapshot"  # what is free, and that nobody waits
    QUEUE = "queue"  # when Slurm expects to start the jobs that wait for the like (squeue --start)
    WAITS = "waits"  # how long like sessions have waited
    LIMIT = "limit"  # a limit of the person, which --test-only does not look at
    NONE = ""


class Estimate(Frozen):
    """Times are Unix seconds. ``reason`` is a sentence where nobody can say, or for a refusal."""

    outlook: Outlook
    starts_at: float | None = None
    basis: Basis = Basis.NONE
    reason: str = ""
    made_at: float


class Nearby(Frozen):
    """Another choice that starts earlier. ``changes``: options to put in the place of those asked
    for; ``label`` ("2 GPUs") and ``words`` ("starts now") are for its button."""

    label: str
    words: str
    changes: dict[str, Any]
    starts_at: float | None = None


class StartAnswer(Frozen):
    """The answer for a choice, in words too. ``source`` says in words whose estimate it is."""

    outlook: Outlook
    words: str
    source: str = ""
    basis: Basis = Basis.NONE
    starts_at: float | None = None
    made_at: float
    nearby: tuple[Nearby, ...] = ()


class EstimateError(Frozen):
    """How wrong the estimates of one partition and basis were. Seconds; a positive ``median`` means
    that sessions started later than was said."""

    partition: str = ""
    basis: str = ""
    sessions: int = 0  # that have started
    unknown: int = 0  # of these, those for which nobody could say
    median: float | None = None
    median_absolute: float | None = None
    within_ten_minutes: float | None = None  # share, 0 to 1
