"""Reasons of the portal's service itself for stopping a session, as sent to the Hub."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from urllib.parse import quote, unquote

from pydantic import StringConstraints, ValidationError

from .. import Frozen
from ..plain_text import PLAIN_LINE

REASON_HEADER = "X-Portal-Reason"
_LONGEST = 2000  # characters of the header, percent-encoded


class StopCode(StrEnum):
    """Endings that a stop can name, with their words on pages."""

    words: str

    def __new__(cls, code: str, words: str) -> StopCode:
        member = str.__new__(cls, code)
        member._value_, member.words = code, words
        return member

    IDLE = "idle", "Idle"
    UNCLAIMED = "unclaimed", "Not claimed"  # started ahead of a meeting and never opened
    REHEARSED = "rehearsed", "Rehearsal ended"  # started only for a rehearsal
    COURSE_OVER = "course_over", "Course ended"
    # A run whose points have all ended, although Slurm holds tasks of it.
    FINISHED = "finished", "Finished"
    BUDGET_USED = "budget_used", "Budget used up"  # of a space, while a run of it had points left
    SURPLUS = "surplus", "One replica fewer"  # a replica that its set no longer has


class StopReason(Frozen):
    """Reason for a stop. ``words``: one plain sentence, for the session's owner."""

    code: StopCode
    words: Annotated[str, StringConstraints(min_length=1, max_length=300), *PLAIN_LINE]

    def header(self) -> str:
        """Return the value of ``REASON_HEADER``: ASCII without spaces or line ends."""
        return quote(self.model_dump_json(), safe="")

    @classmethod
    def read(cls, header: str) -> StopReason | None:
        """Parse a value of ``REASON_HEADER``; None if it is no reason."""
        try:
            return cls.model_validate_json(unquote(header[:_LONGEST])) if header else None
        except ValidationError:
            return None
