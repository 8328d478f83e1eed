"""Histories of a point's metrics: pairs of a step and a value, few enough to be sent.

All values are in the point's file of metrics.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

MOST = 20  # metrics; further ones have no history
MOST_PAIRS = 200  # of each
STEPS = ("step", "epoch")  # metrics that are steps of the others, the first that is there
_EVERY = 30.0  # seconds between two snapshots: a thousand points send theirs


class History:
    """History of one metric: each k-th pair, and always the newest. k doubles when it is full."""

    def __init__(self) -> None:
        self._pairs: list[tuple[float, float]] = []
        self._every, self._count = 1, 0
        self._last: tuple[float, float] | None = None

    def add_value(self, step: float, value: float) -> None:
        """Add a pair."""
        self._last = (step, value)
        if self._count % self._every == 0:
            if len(self._pairs) == MOST_PAIRS - 1:  # there is room for the newest
                self._pairs = self._pairs[::2]
                self._every *= 2
            if self._count % self._every == 0:
                self._pairs.append(self._last)
        self._count += 1

    def pairs(self) -> list[tuple[float, float]]:
        """Return at most MOST_PAIRS pairs, with six digits."""
        pairs = list(self._pairs)
        if self._last is not None and (not pairs or pairs[-1] != self._last):
            pairs.append(self._last)
        return [(float(f"{step:.12g}"), float(f"{value:.6g}")) for step, value in pairs]


class Histories:
    """Histories of a point's metrics, by name. ``always``: name of one that has a history although
    there are many others."""

    def __init__(self, always: str = "") -> None:
        self._always = always
        self._histories: dict[str, History] = {}
        self._calls = 0
        self._snapshot: dict[str, list[tuple[float, float]]] = {}
        self._taken_at = float("-inf")  # in time.monotonic()

    def add_values(self, values: Mapping[str, float]) -> None:
        """Add the values of one call of ``log``; its step is its own, or its number from 0."""
        step = next((values[name] for name in STEPS if name in values), float(self._calls))
        self._calls += 1
        for name, value in values.items():
            if name in STEPS:
                continue
            if name not in self._histories:
                reserved = self._always != "" and self._always not in (*self._histories, name)
                if len(self._histories) >= MOST - reserved:
                    continue
                self._histories[name] = History()
            self._histories[name].add_value(step, value)

    def curves(self, *, newest: bool) -> dict[str, list[tuple[float, float]]]:
        """Return the pairs by metric: the same ones for half a minute, or the ``newest``."""
        now = time.monotonic()
        if newest or not self._snapshot or now - self._taken_at >= _EVERY:
            self._taken_at = now
            self._snapshot = {name: each.pairs() for name, each in self._histories.items()}
        return self._snapshot
