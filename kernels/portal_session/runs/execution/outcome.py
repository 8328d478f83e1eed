"""Outcome of a point: its state, the exit code of its job, and a sentence."""

from __future__ import annotations

from typing import NamedTuple

SUCCEEDED, FAILED, WAITING = "succeeded", "failed", "waiting"
STOPPED = 143  # exit code after SIGTERM, as a shell has it
ENDS = 5.0  # seconds that a program may take to end after SIGTERM, if no more are known
RESUMES = 85  # exit code of a point whose job starts again (deploy/session.sh)


class Outcome(NamedTuple):
    """Outcome of a point. ``state``: SUCCEEDED or FAILED; WAITING: its job starts again."""

    state: str
    message: str
    exit: int

    @classmethod
    def failed(cls, message: str, exit: int = 1) -> Outcome:
        """Return the outcome of a point that failed."""
        return cls(FAILED, message, exit)
