"""Rate limit of the watcher's requests to slurmctld: so many a second in the long run."""

from __future__ import annotations

import asyncio
import contextlib
import time

_BEHIND = 0.25  # requests


class QueryBudget:
    """Token bucket that fills with ``rate`` requests a second, up to ``burst``."""

    def __init__(self, rate: float, burst: int, urgent_interval: float) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._urgent_interval = urgent_interval
        self._level = float(burst)
        self._filled_at = time.monotonic()
        self._last_wait = 0.0

    async def take(self, cost: int, *, hurry: asyncio.Event | None = None) -> None:
        """Spend ``cost`` requests: after waiting for them (until ``hurry`` is set), or at once.

        A caller that waits keeps the least interval from the last one that did, in a hurry too. A
        caller that does not wait empties the bucket at most, so that a busy page cannot stop the
        others.
        """
        if hurry is not None:
            self._fill()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(hurry.wait(), (cost - self._level) / self._rate)
            pause = self._last_wait + self._urgent_interval - time.monotonic()
            await asyncio.sleep(max(0.0, pause))
            self._last_wait = time.monotonic()
        self._fill()
        self._level = max(self._level - cost, 0.0)

    def spend(self, cost: float, *, leave: float = 0.0) -> bool:
        """Spend ``cost`` requests if they are there now and ``leave`` stay; else return False."""
        self._fill()
        if self._level < cost + leave:
            return False
        self._level -= cost
        return True

    def follow(self, cost: float) -> None:
        """Count ``cost`` requests of another process whose answer is used. The next turn comes a
        little after the next one of that process, which may have an answer again by then."""
        self._fill()
        self._level = max(self._level - cost, -_BEHIND)

    def owe(self, cost: float) -> None:
        """Spend a ``cost`` that is known only afterwards; the level may become negative."""
        self._fill()
        self._level -= cost

    def _fill(self) -> None:
        now = time.monotonic()
        self._level = min(self._burst, self._level + (now - self._filled_at) * self._rate)
        self._filled_at = now
