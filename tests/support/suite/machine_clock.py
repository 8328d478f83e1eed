"""Clock that stops while the machine stands still, so that the portal is not blamed for a machine
that was paused or had no time for this process.

A thread that only sleeps detects standstills. CPU time of this process meanwhile still counts, even
if the thread did not run: other threads can hold it up too.
"""

from __future__ import annotations

import threading
import time

from machine import slowness

_EVERY, _LATE = 0.05, 0.1  # seconds between two checks; a longer delay is a standstill


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
    """Return seconds, of a clock without those in which the machine stood still. On a machine with
    a slower processor they are longer, as what is measured in them takes longer."""
    if not _watch:
        _watch.append(_Watch())
    return _watch[0].now() / slowness().processor
