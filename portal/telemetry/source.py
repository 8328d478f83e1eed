"""Protocol of a telemetry source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..models.cluster.cluster import ClusterSnapshot
from ..models.cluster.gpu import GpuReading
from .gpu_holders import Gpu


class TelemetrySource(Protocol):
    """Source of readings of all GPUs. ``Telemetry`` queries it, shares and keeps the answer, and
    reports errors; a source only answers."""

    title: str  # its name, for sentences
    simulated: bool  # its readings are simulated, and pages say so
    pause: float  # minimum seconds between two queries

    async def readings(
        self, snapshot: ClusterSnapshot, max_age: int
    ) -> Mapping[Gpu, GpuReading] | None:
        """Return a reading for each GPU of ``snapshot`` of which the source knows something not
        older than ``max_age`` seconds; None if there is nothing to query.

        Must not block the event loop. Raises Unavailable with a sentence that everyone may see.
        """
        ...
