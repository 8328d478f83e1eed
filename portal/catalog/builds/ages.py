"""Ages of database rows, by the monotonic clock: the wall clock may be set while a build waits.

Only the first age of a row comes from its own timestamp.
"""

from __future__ import annotations

import time
from collections import OrderedDict

_MOST = 2000  # rows remembered


class Ages:
    """Ages of the rows of one table."""

    def __init__(self) -> None:
        self._began: OrderedDict[tuple[int, float], float] = OrderedDict()

    def age_of(self, id: int, at: float) -> float:
        """Return the seconds since ``at`` (Unix seconds), the time of row ``id``; at least 0."""
        key, uptime = (id, at), time.monotonic()
        if key not in self._began:
            self._began[key] = uptime - max(0.0, time.time() - at)
            while len(self._began) > _MOST:
                self._began.popitem(last=False)
        return uptime - self._began[key]
