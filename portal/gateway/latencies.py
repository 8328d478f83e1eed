"""Histogram of times, as Prometheus counts them: each bucket holds those at or below its bound."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 600.0)


class Latencies:
    """Seconds from a request's place at a replica to its answer's last byte."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0

    def add_seconds(self, seconds: float) -> None:
        """Count one request."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds

    def cumulative(self) -> list[tuple[str, int]]:
        """Return each bound with the number of times at or below it; the last is "+Inf"."""
        rows, total = [], 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self._counts, strict=True):
            total += count
            rows.append((bound, total))
        return rows

    def view(self) -> dict[str, Any]:
        """Return it as JSON: "buckets" (cumulative, by bound) and "sum" in seconds."""
        return {"buckets": dict(self.cumulative()), "sum": round(self.sum, 6)}
