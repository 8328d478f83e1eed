"""A clock that stands still until a test moves it."""

from __future__ import annotations


class StillClock:
    """Clock whose time is ``now``, in seconds."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
