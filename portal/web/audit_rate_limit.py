"""How often one person may do what costs others something: lines of the audit log, which are kept
for ever, and launches that are refused."""

from __future__ import annotations

import math
from collections import OrderedDict

_FORGET = 3600.0  # seconds after which a person who asks for nothing is forgotten


class Allowance:
    """``most`` at once, and ``per_second`` on average; those beyond are counted. Times: seconds."""

    def __init__(self, most: int = 300, per_second: float = 5.0) -> None:
        self._most, self._per_second = most, per_second
        # left, when that was so, left out since the last one: by person, the latest at the end
        self._people: OrderedDict[str, tuple[float, float, int]] = OrderedDict()

    def take(self, person: str, at: float) -> int | None:
        """None: one too many. Else how many were left out since the last one that was not."""
        left, before, missed = self._people.pop(person, (float(self._most), at, 0))
        left = min(self._most, left + max(0.0, at - before) * self._per_second)
        fine = left >= 1
        self._people[person] = (left - 1, at, 0) if fine else (left, at, missed + 1)
        while next(iter(self._people.values()))[1] < at - _FORGET:
            self._people.popitem(last=False)
        return missed if fine else None

    def give_back(self, person: str) -> None:
        """Undo one that was taken and did not count in the end."""
        if person in self._people:
            left, at, missed = self._people[person]
            self._people[person] = (min(self._most, left + 1), at, missed)

    def wait(self, person: str) -> int:
        """Return the whole seconds until the next one, after one too many."""
        left = self._people[person][0] if person in self._people else self._most
        return max(0, math.ceil((1 - left) / self._per_second))
