"""Why the portal's service itself stops a session, as it tells the Hub."""

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
    """The endings that a stop can name; they have titles in portal.sessions.ending."""

    IDLE = "idle"
    UNCLAIMED = "unclaimed"  # started ahead of a meeting to which nobody came
    REHEARSED = "rehearsed"  # started to be thrown away
    COURSE_OVER = "course_over"


class StopReason(Frozen):
    """``words``: one plain sentence, for the session's owner."""

    code: StopCode
    words: Annotated[str, StringConstraints(min_length=1, max_length=300), *PLAIN_LINE]

    def header(self) -> str:
        """The value of ``REASON_HEADER``: ASCII without spaces or line ends."""
        return quote(self.model_dump_json(), safe="")

    @classmethod
    def read(cls, header: str) -> StopReason | None:
        """The reverse; None for what is no reason."""
        try:
            return cls.model_validate_json(unquote(header[:_LONGEST])) if header else None
        except ValidationError:
            return None
