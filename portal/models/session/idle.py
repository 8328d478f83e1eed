"""How idle a session's GPUs are, and what follows from it."""

from __future__ import annotations

from enum import StrEnum

from .. import Frozen


class IdleMode(StrEnum):
    """What the portal does about sessions whose GPUs nobody uses."""

    OFF = "off"
    WARN = "warn"
    ON = "on"  # warn, then stop


class IdleState(Frozen):
    """Of one session. Seconds and Unix seconds; ``warned`` is true once its owner is to be told.

    ``idle_since``: None while it is used, or while that is not known: ``unknown`` says why then.
    ``stops_at``: None where nothing stops it (warn-only, exempt, not idle). ``save_at``: from then
    on a page that shows the session's documents should save them, since the stop is near.
    """

    mode: IdleMode = IdleMode.OFF
    idle_since: float | None = None
    warned: bool = False
    stops_at: float | None = None
    save_at: float | None = None
    snoozed_until: float | None = None
    exempt: str = ""  # the sentence why nothing happens to this session; "" where it does
    unknown: str = ""  # the sentence why nobody can say whether it is idle
    limit: float | None = None  # seconds of idleness after which it stops
    snooze: float = 0  # seconds that one snooze lasts; 0: no snooze is left or offered
    snoozes_left: int = 0
