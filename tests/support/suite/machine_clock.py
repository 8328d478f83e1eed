"""A clock that stands still while the machine does: what is slow is the portal, not a machine that
was paused or had no time for this process.

A thread that only sleeps sees the standstills. What this process computed meanwhile counts, though
the thread did not come to its turn: other threads hold it up too.
"""

from __future__ import annotations

import threading
import time

_EVERY, _LATE = 0.05, 0.1  # seconds between two looks; later than that is a standstill


class _Watch:
    def __init__(self) -> None:
        self.lost, self.seen, self.computed = 0.0, time.monotonic(), time.process_time()
        self.lock = threading.Lock()
        threading.Thread(target=self._tick, name="machine-clock", daemon=True).start()

    def _tick(self) -> None:
        while True:
            time.sleep(_EVERY)
            with self.lock:
                now, computed = time.monotonic(), time.process_time()
                self.lost += self._gap(now, computed)
                self.seen, self.computed = now, computed

    def _gap(self, now: float, computed: float) -> float:
        return max(0.0, now - self.seen - _LATE - (computed - self.computed))

    def now(self) -> float:
        with self.lock:
            now = time.monotonic()
            return now - self.lost - self._gap(now, time.process_time())


_watch: list[_Watch] = []


def awake() -> float:
    """Seconds, as time.monotonic() has them, without those in which the machine stood still."""
    if not _watch:
        _watch.append(_Watch())
    return _watch[0].now()
