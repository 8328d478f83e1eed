"""Rate limit per person on what costs others something.

These are entries of the audit log, which are kept for ever, and launches that are refused.
"""

from __future__ import annotations

import math
from collections import OrderedDict

_FORGET = 3600.0  # seconds after which a person who asks for nothing is forgotten


class AuditRateLimit:
    """Token bucket per person: ``most`` at once, ``per_second`` on average. Times: seconds.

    Refused entries are counted.
    """

    def __init__(self, most: int = 300, per_second: float = 5.0) -> None:
        self._most, self._per_second = most, per_second
        # by person, the latest at the end: tokens left, as of when, refused since the last admitted
        self._people: OrderedDict[str, tuple[float, float, int]] = OrderedDict()

    def take(self, person: str, at: float) -> int | None:
        """Return None if the limit is exceeded, else the number refused since the last
        admitted."""
        left, before, missed = self._people.pop(person, (float(self._most), at, 0))
        left = min(self._most, left + max(0.0, at - before) * self._per_second)
        fine = left >= 1
        self._people[person] = (left - 1, at, 0) if fine else (left, at, missed + 1)
        while next(iter(self._people.values()))[1] < at - _FORGET:
            self._people.popitem(last=False)
        return missed if fine else None

    def give_back(self, person: str) -> None:
        """Undo a ``take`` that did not count in the end."""
        if person in self._people:
            left, at, missed = self._people[person]
            self._people[person] = (min(self._most, left + 1), at, missed)

    def wait(self, person: str) -> int:
        """Return the whole seconds until the next one is admitted; 0: now."""
        left = self._people[person][0] if person in self._people else self._most
        return max(0, math.ceil((1 - left) / self._per_second))
