"""A running session that is being given other resources: a new job waits for its turn."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from .. import Frozen


class MoveState(StrEnum):
    """Where a move is."""

    QUEUED = "queued"  # the new job waits; the session goes on
    STARTING = "starting"  # the new job runs, its server does not answer yet
    READY = "ready"  # the new server answers; the old one is about to be asked to save
    SWITCHING = "switching"  # the old one ends, the address leads to the new one
    DONE = "done"
    FAILED = "failed"  # the session goes on as it was
    CANCELLED = "cancelled"


# While it is in one of these, a job waits to take the session's place.
LIVE = frozenset({MoveState.QUEUED, MoveState.STARTING, MoveState.READY, MoveState.SWITCHING})


class Move(Frozen):
    """One move, as it is shown. ``words`` says in a sentence what happens or happened."""

    state: MoveState
    options: dict[str, Any]
    job_id: str = ""
    words: str = ""
    asked_at: float
    expected_start: float | None = None
    position: int | None = None
