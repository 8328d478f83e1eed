"""Reasons for stopping a session, as the portal's service sends them to the Hub."""

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
    """Endings that a stop can name."""

    STOPPED = "stopped"  # by another user, who gives the reason; the rest is the service's own
    IDLE = "idle"
    UNCLAIMED = "unclaimed"  # started ahead of a meeting and never opened
    REHEARSED = "rehearsed"  # started only for a rehearsal
    COURSE_OVER = "course_over"
    SPACE_LEFT = "space_left"  # its user is no longer a member of its space
    FINISHED = "finished"  # a run whose points have all ended, although Slurm holds tasks of it
    BUDGET_USED = "budget_used"  # of a space, while a run of it had points left
    SURPLUS = "surplus"  # a replica that its set no longer has


STOP_TITLES = {
    StopCode.IDLE: "Idle",
    StopCode.UNCLAIMED: "Not claimed",
    StopCode.REHEARSED: "Rehearsal ended",
    StopCode.COURSE_OVER: "Course ended",
    StopCode.SPACE_LEFT: "Access ended",
    StopCode.FINISHED: "Finished",
    StopCode.BUDGET_USED: "Budget used up",
    StopCode.SURPLUS: "One replica fewer",
}
"""Titles of these endings, for pages; those of all: portal.sessions.ending."""


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
