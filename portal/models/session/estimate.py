"""Estimates of a session's start, with their basis, and choices that start earlier."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from .. import Frozen


class Outlook(StrEnum):
    """Outlook for a session's start."""

    NOW = "now"
    LATER = "later"  # at ``starts_at``
    UNKNOWN = "unknown"
    REFUSED = "refused"  # not permitted, or Slurm would not accept it


class Basis(StrEnum):
    """Basis of an estimate."""

    SLURM = "slurm"  # sbatch --test-only
    LARGER = "larger"  # the same for a choice that asks for more
    SNAPSHOT = "snapshot"  # resources are free, and nobody waits
    QUEUE = "queue"  # Slurm's expected starts of similar pending jobs (squeue --start)
    WAITS = "waits"  # waiting times of similar sessions
    LIMIT = "limit"  # a limit of the person, which --test-only ignores
    NONE = ""


class Estimate(Frozen):
    """Estimate of a start. Times are Unix seconds. ``reason``: why it is unknown or refused."""

    outlook: Outlook
    starts_at: float | None = None
    basis: Basis = Basis.NONE
    reason: str = ""
    made_at: float


class Nearby(Frozen):
    """Alternative choice that starts earlier. ``changes``: options that replace the requested
    ones; ``label`` ("2 GPUs") and ``words`` ("starts now") are for its button."""

    label: str
    words: str
    changes: dict[str, Any]
    starts_at: float | None = None


class StartAnswer(Frozen):
    """Estimate for a choice, also in words. ``source``: origin of the estimate, in words.
    ``field``: the field that a refusal is about; "" for none. ``waits``: seconds that a session
    would wait if it were requested now, in one hour, and so on for a day, if no further jobs are
    submitted; null where that is not known, empty if no start is known. ``waits_words``: the same
    as a sentence."""

    outlook: Outlook
    words: str
    source: str = ""
    field: str = ""
    basis: Basis = Basis.NONE
    starts_at: float | None = None
    made_at: float
    nearby: tuple[Nearby, ...] = ()
    waits: tuple[float | None, ...] = ()
    waits_words: str = ""


class EstimateError(Frozen):
    """Error of the estimates of one partition and basis. Seconds; a positive ``median`` means that
    sessions started later than estimated."""

    partition: str = ""
    basis: str = ""
    sessions: int = 0  # that have started
    unknown: int = 0  # of these, those without an estimate
    median: float | None = None
    median_absolute: float | None = None
    within_ten_minutes: float | None = None  # share, 0 to 1
