"""Objects of the web service for benchmarks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from portal.notices.post import MailQueue
from portal.work.run.parts import RunParts

from .collector import BenchmarkCollector

if TYPE_CHECKING:
    from portal.assembly import Services


class BenchmarkParts:
    """The loop that collects results."""

    def __init__(self, services: Services) -> None:
        self.collector = BenchmarkCollector(
            services.store,
            services.cluster,
            services.hub,
            # The parts of other features are made at the same time.
            lambda: services.parts_for(RunParts).repetitions,
            MailQueue(services.notices, services.log),
            services.log,
            simulated=lambda: services.telemetry.simulated,
        )
        self.tasks: dict[str, Callable[[], Awaitable[None]]] = {
            "collection of benchmarks": self.collector.run
        }
