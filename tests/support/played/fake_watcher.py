"""Watchers and telemetry that say what a test says, in place of Slurm's and Prometheus'."""

from __future__ import annotations

import asyncio
from typing import Any

from portal.errors import PortalError
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.cluster.gpu import GpuReading
from portal.models.cluster.rights import Rights
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


class WillingSlurm:
    """Base of a watcher, control and dashboard in one, of a Slurm without accounts and limits in
    which the portal may change jobs."""

    runner: Any = None
    error = ""

    def __init__(self) -> None:
        self.known_qos: dict[str, Any] = {}

    def known_associations(self, user: str) -> None:
        return None

    async def associations(self, user: str) -> None:
        return None

    async def has_account(self, name: str) -> None:
        return None

    async def rights(self) -> Rights:
        return Rights(jobs=True)

    async def need(self, what: str) -> None:
        assert what == "jobs"

    async def refreshed(self) -> None:
        await asyncio.sleep(0)


class ToldTelemetry(Telemetry):
    """Telemetry with these readings, all of which count as accountable."""

    def __init__(self, *told: GpuReading) -> None:
        super().__init__()
        self.told = told

    def readings(self, snapshot: ClusterSnapshot) -> dict[tuple[str, int], GpuReading]:
        return {(reading.node, reading.index): reading for reading in self.told}

    accountable = readings
