"""A clock that stands still while the machine does: what is slow is the portal, not a machine that
was paused or had no time for this process. A thread that only sleeps tells the two apart."""

from __future__ import annotations

import threading
import time

_EVERY, _LATE = 0.05, 0.1  # seconds; to be woken up that late is no standstill yet


class _Watch:
    def __init__(self) -> None:
        self.lost, self.seen = 0.0, time.monotonic()
        self.lock = threading.Lock()
        threading.Thread(target=self._tick, name="machine-clock", daemon=True).start()

    def _tick(self) -> None:
        while True:
            time.sleep(_EVERY)
            with self.lock:
                now = time.monotonic()
                self.lost, self.seen = self.lost + self._gap(now), now

    def _gap(self, now: float) -> float:
        return max(0.0, now - self.seen - _LATE)

    def now(self) -> float:
        with self.lock:
            now = time.monotonic()
            return now - self.lost - self._gap(now)


_watch: list[_Watch] = []


def awake() -> float:
    """Seconds, as time.monotonic() has them, without those in which the machine stood still."""
    if not _watch:
        _watch.append(_Watch())
    return _watch[0].now()
