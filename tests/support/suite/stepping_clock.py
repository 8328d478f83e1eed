"""System clock that a test sets, while the monotonic clock goes on unchanged."""

from __future__ import annotations

import time

import pytest


class SteppingClock:
    """Clock whose ``step`` moves time.time() by so many seconds, as ntpd or an admin does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real, self._ahead = time.time, 0.0
        monkeypatch.setattr(time, "time", lambda: self._real() + self._ahead)

    def step(self, seconds: float) -> None:
        self._ahead += seconds
