"""No telemetry source: what GPUs do is known from the sessions' own reports alone."""

from __future__ import annotations

from ..models.cluster.cluster import ClusterSnapshot
from .settings import TelemetrySettings


class NoSource:
    """Nobody is asked."""

    title = "Nobody"
    simulated = False
    pause = 0.0

    def __init__(self, settings: TelemetrySettings) -> None:
        pass

    async def readings(self, snapshot: ClusterSnapshot, max_age: int) -> None:
        return None
