"""Ages of rows: as they say themselves when they are seen first, and from then on by a clock that
nobody sets. The machine's may be set while a build waits in the queue."""

from __future__ import annotations

import time
from collections import OrderedDict

_MOST = 2000  # rows that are remembered


class Ages:
    """Ages of the rows of one table."""

    def __init__(self) -> None:
        self._began: OrderedDict[tuple[int, float], float] = OrderedDict()

    def of(self, id: int, at: float) -> float:
        """Seconds since ``at`` (Unix seconds), which the row ``id`` has; never negative."""
        key, uptime = (id, at), time.monotonic()
        if key not in self._began:
            self._began[key] = uptime - max(0.0, time.time() - at)
            while len(self._began) > _MOST:
                self._began.popitem(last=False)
        return uptime - self._began[key]
