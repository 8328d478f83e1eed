"""Rate limit of each session's reports, and the time that a report stands for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

_NEVER = float("-inf")
_FORGET = 3600.0  # seconds without a report after which a session is forgotten


class RateLimit:
    """Pace of the reports. Times are time.monotonic(). ``least``: minimum seconds between two
    tries; ``gap``: longest pause between two reports that counts as measured, in seconds."""

    def __init__(self, least: float, gap: float) -> None:
        self._least = least
        self._gap = gap
        self._seen: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # tried, taken

    def admit(self, who: Hashable, at: float) -> float:
        """Return 0 and note the try, or the seconds until ``who`` may try again."""
        tried, taken = self._seen.pop(who, (_NEVER, _NEVER))
        early = 0 <= at - tried < self._least
        self._seen[who] = (tried if early else at, taken)
        while self._seen and next(iter(self._seen.values()))[0] < at - _FORGET:
            self._seen.popitem(last=False)
        return self._least - (at - tried) if early else 0.0

    def passed(self, who: Hashable, at: float) -> float:
        """Note that a report of ``who`` was taken. Returns the seconds that it stands for: those
        since the previous report, 0 for the first one and after a pause longer than ``gap``."""
        tried, taken = self._seen.pop(who, (at, _NEVER))
        self._seen[who] = (tried, at)
        return at - taken if 0 <= at - taken <= self._gap else 0.0
