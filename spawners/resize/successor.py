"""State of the job that is to take a session's place, which outlives the Hub. No secret."""

from __future__ import annotations

from typing import Any

from portal.models import Frozen
from portal.models.session.move import LIVE, Move, MoveState


class Successor(Frozen):
    """Job that is to take a session's place. Times are Unix seconds."""

    state: MoveState = MoveState.QUEUED
    options: dict[str, Any]
    partition_automatic: bool = False  # as in LaunchRequest
    words: str = ""
    by: str = ""  # who asked for it
    asked_at: float
    ended_at: float | None = None
    job_id: str
    token_id: int  # row of the new server's token
    log_name: str
    port: int = 0

    @property
    def live(self) -> bool:
        return self.state in LIVE

    def move(self, expected_start: float | None = None, position: int | None = None) -> Move:
        """Return the move as it is shown."""
        return Move.like(self, expected_start=expected_start, position=position)
