"""No telemetry source: the use of GPUs is known only from the sessions' own reports."""

from __future__ import annotations

from ..models.cluster.cluster import ClusterSnapshot
from .settings import TelemetrySettings


class NoSource:
    """Source without readings."""

    title = "Nobody"
    simulated = False
    pause = 0.0

    def __init__(self, settings: TelemetrySettings) -> None:
        pass

    async def readings(self, snapshot: ClusterSnapshot, max_age: int) -> None:
        return None
