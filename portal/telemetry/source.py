"""The protocol of a telemetry source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..models.cluster.cluster import ClusterSnapshot
from ..models.cluster.gpu import GpuReading
from .gpu_holders import Gpu


class TelemetrySource(Protocol):
    """A source of readings of all GPUs. ``Telemetry`` asks, shares the answer, keeps it, and
    says what is wrong; a source only answers."""

    title: str  # who answers, in sentences
    simulated: bool  # its readings are invented, and pages say so
    pause: float  # seconds between two questions at least

    async def readings(
        self, snapshot: ClusterSnapshot, max_age: int
    ) -> Mapping[Gpu, GpuReading] | None:
        """Return a reading for each GPU of ``snapshot`` of which the source knows something not
        older than ``max_age`` seconds; None where there is nobody to ask.

        Must not hold up the event loop. Raises Unavailable with a sentence for everyone.
        """
        ...
