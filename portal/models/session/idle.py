"""Idleness of a session's GPUs, and its consequences."""

from __future__ import annotations

from enum import StrEnum

from .. import Frozen


class IdleMode(StrEnum):
    """Action of the portal on sessions with unused GPUs."""

    OFF = "off"
    WARN = "warn"
    ON = "on"  # warn, then stop


class IdleState(Frozen):
    """Idleness of a session. Seconds and Unix seconds; ``warned``: its owner is to be warned.

    ``idle_since``: None while it is used, or while that is unknown: ``unknown`` then says why.
    ``stops_at``: None if nothing stops it (warn-only, exempt, not idle). ``save_at``: time from
    which a page that shows the session's documents should save them, since the stop is near.
    """

    mode: IdleMode = IdleMode.OFF
    idle_since: float | None = None
    warned: bool = False
    stops_at: float | None = None
    save_at: float | None = None
    snoozed_until: float | None = None
    exempt: str = ""  # sentence why this session is exempt; "": it is not
    unknown: str = ""  # sentence why it is unknown whether it is idle
    limit: float | None = None  # seconds of idleness after which it stops
    snooze: float = 0  # seconds that one snooze lasts; 0: no snooze is left or offered
    snoozes_left: int = 0
