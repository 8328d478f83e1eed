"""Watcher and telemetry that say what a test says, in place of Slurm's and Prometheus'."""

from __future__ import annotations

from typing import Any

from portal.errors import PortalError
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.cluster.gpu import GpuReading
from portal.slurm import Cluster
from portal.telemetry import Telemetry


class ToldCluster(Cluster):
    """Watcher that returns ``told``, or raises it; ``asked`` counts the calls."""

    def __init__(self, told: ClusterSnapshot | PortalError) -> None:
        super().__init__()
        self.told = told
        self.asked = 0

    async def snapshot(self, *_: Any, **__: Any) -> ClusterSnapshot:
        self.asked += 1
        if isinstance(self.told, PortalError):
            raise self.told
        return self.told


class ToldTelemetry(Telemetry):
    """Telemetry with these readings, all of which count as accountable."""

    def __init__(self, *told: GpuReading) -> None:
        super().__init__()
        self.told = told

    def readings(self, snapshot: ClusterSnapshot) -> dict[tuple[str, int], GpuReading]:
        return {(reading.node, reading.index): reading for reading in self.told}

    accountable = readings
