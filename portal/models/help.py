"""Help: access of a member of a space to another member's session, for a while."""

from __future__ import annotations

from abc import abstractmethod
from enum import StrEnum

from . import Frozen


class HelpState(StrEnum):
    """State of a request for access to another member's session."""

    ASKED = "asked"
    GRANTED = "granted"
    REFUSED = "refused"
    ENDED = "ended"


class SpaceHelp(Frozen):
    """Access of ``helper`` to a session of ``student``, who owns it. ``server`` is the session's
    name in the Hub.

    ``until``: time at which it ends by itself, ``minutes`` after it was granted; None before.
    """

    id: int = 0
    student: str
    server: str
    session_id: str
    helper: str
    state: HelpState
    minutes: int
    asked_at: float
    granted_at: float | None = None
    until: float | None = None
    ended_at: float | None = None
    ended_by: str = ""

    @property
    @abstractmethod
    def space(self) -> str:
        """Name of the space."""
