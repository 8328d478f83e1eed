"""How many lines of the audit log one person may cause: they are kept for ever."""

from __future__ import annotations

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
