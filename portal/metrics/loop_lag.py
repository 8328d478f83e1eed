"""Lag of the event loop: how much later than asked a task of the service continues."""

from __future__ import annotations

import asyncio
import time

from prometheus_client import CollectorRegistry, Histogram

_EVERY = 0.25  # seconds
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class LoopLag:
    """Histogram of the lag, filled by ``run``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "portal_event_loop_lag_seconds",
            "How much later than asked a task of the service continues.",
            buckets=_BUCKETS,
            registry=registry,
        )

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(_EVERY)
            self._seconds.observe(max(0.0, time.monotonic() - began - _EVERY))
