"""Outcome of a point: its state, the exit code of its job, and a sentence."""

from __future__ import annotations

from typing import NamedTuple

SUCCEEDED, FAILED, WAITING = "succeeded", "failed", "waiting"
STOPPED = 143  # exit code after SIGTERM, as a shell has it
PRUNED = "TrialPruned"  # Optuna's exception (optuna.exceptions)
ENDS = 5.0  # seconds that a program may take to end after SIGTERM, if no more are known
# Exit codes of a point whose job starts again (deploy/session.sh): it goes on, or it has found a
# node on which it cannot run.
RESUMES, EXCLUDES = 85, 86
AGAIN = (RESUMES, EXCLUDES)


class Outcome(NamedTuple):
    """Outcome of a point. ``state``: SUCCEEDED or FAILED; WAITING: its job starts again.
    ``pruned``: its program has raised Optuna's TrialPruned."""

    state: str
    message: str
    exit: int
    pruned: bool = False

    def in_search(self) -> Outcome:
        """Return the outcome of a search's point: one that is pruned has done what it should."""
        # The portal knows it by the beginning of this message (portal/models/session/run.py).
        return Outcome(SUCCEEDED, f"Pruned. {self.message}", 0) if self.pruned else self

    @classmethod
    def failed(cls, message: str, exit: int = 1) -> Outcome:
        """Return the outcome of a point that failed."""
        return cls(FAILED, message, exit)
