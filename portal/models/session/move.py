"""Change of a running session's resources: a new job is queued to take its place."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from .. import Frozen


class MoveState(StrEnum):
    """State of a move."""

    QUEUED = "queued"  # the new job waits; the session goes on
    STARTING = "starting"  # the new job runs, its server does not answer yet
    READY = "ready"  # the new server answers; the old one is about to be asked to save
    SWITCHING = "switching"  # the old server ends, the address leads to the new one
    DONE = "done"
    FAILED = "failed"  # the session goes on as it was
    CANCELLED = "cancelled"


# While it is in one of these, a job waits to take the session's place.
LIVE = frozenset({MoveState.QUEUED, MoveState.STARTING, MoveState.READY, MoveState.SWITCHING})


class Move(Frozen):
    """Move of a session, as shown. ``words``: sentence on what happens or happened."""

    state: MoveState
    options: dict[str, Any]
    job_id: str = ""
    words: str = ""
    asked_at: float
    expected_start: float | None = None
    position: int | None = None
