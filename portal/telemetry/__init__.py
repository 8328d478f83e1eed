"""Readings of GPUs: from a telemetry source (sources.py), and from the sessions themselves.

All share one interface: a reading of a GPU, with its time and its source. A GPU that nobody
measured has no reading, and is shown as "unknown".
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from ..cache import SharedAnswer
from ..errors import Unavailable
from ..models.cluster.cluster import ClusterSnapshot, Job, Node
from ..models.cluster.gpu import GpuReading
from ..models.session.telemetry import ReportedGpu, TelemetryReport
from ..plugins import PluginName, part_of
from ..setting import setting
from .gpu_holders import Gpu, holders
from .rate_limit import RateLimit
from .reported import Reported, sums
from .settings import TelemetrySettings
from .sources import SOURCES

__all__ = ["Telemetry", "sums"]


class Telemetry(TelemetrySettings):
    """Newest readings of the cluster's GPUs.

    ``error`` is "" or a sentence why the source does not answer, ``taken_at`` the time of its last
    answer (Unix seconds; None: never). While the source is away, its last readings stay until they
    are older than ``max_age``. Raises ConfigurationError for invalid settings.
    """

    source = setting(
        PluginName(SOURCES, "telemetry", default_value="none"),
        """Source of readings of all GPUs: "prometheus" (the DCGM exporter's metrics, see
        prometheus_url), "none", "simulated", which generates values and labels them as simulated on
        each page, or an entry point of "data_scientist_portal.telemetry". With any of these,
        sessions report the use of their own GPUs; these reports are shown for GPUs that the source
        does not cover and never count as usage.""",
        'c.Telemetry.source = "prometheus"',
    )

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.error = ""
        self.taken_at: float | None = None
        self._taken: float | None = None  # ``taken_at`` by the monotonic clock
        self.reported = Reported()
        self.pace = RateLimit(self.report_interval, self.report_gap)
        self._source = part_of(SOURCES, "telemetry", self.source)(self)
        self._readings = SharedAnswer[Mapping[Gpu, GpuReading]](
            ttl=lambda _: self._source.pause, retry=math.inf, first={}
        )

    @property
    def simulated(self) -> bool:
        """Return True if the readings are simulated."""
        return self._source.simulated

    @property
    def age(self) -> float | None:
        """Seconds since the source last answered; None before that."""
        return None if self._taken is None else time.monotonic() - self._taken

    async def refresh(self, snapshot: ClusterSnapshot) -> None:
        """Query the source. All callers share one query; none of them gets an exception."""
        await self._readings.get(lambda: self._ask(snapshot), patience=self.patience)

    async def _ask(self, snapshot: ClusterSnapshot) -> Mapping[Gpu, GpuReading]:
        problem = "Telemetry could not be read. See the service's log."
        try:
            readings = await self._source.readings(snapshot, self.max_age)
            problem = ""
        except Unavailable as error:
            problem = error.message
            raise
        finally:
            if problem and problem != self.error:
                self.log.warning("Telemetry: %s", problem)
            elif problem != self.error:
                self.log.info("Telemetry: %s answers again.", self._source.title)
            self.error = problem
        if readings is None:
            return self._readings.last or {}
        self.taken_at, self._taken = time.time(), time.monotonic()
        return readings

    def readings(self, snapshot: ClusterSnapshot) -> dict[Gpu, GpuReading]:
        """Return the newest reading per (node, Slurm's index), without outdated ones.

        Sessions' own reports fill in for missing readings of the source.
        """
        readings = self.accountable(snapshot)
        for gpu, reading in self.reported.readings(snapshot, self.max_age).items():
            known = readings.get(gpu)
            if known is None or (known.utilization is None and not known.mig):
                readings[gpu] = reading
        return readings

    def accountable(self, snapshot: ClusterSnapshot) -> dict[Gpu, GpuReading]:
        """Return the readings that usage may be counted from: without sessions' own reports."""
        now = time.time()
        if self.taken_at is not None and self._taken is not None:
            # The system clock, which gave the readings their times, may have been set since.
            now = self.taken_at + time.monotonic() - self._taken
        oldest = now - self.max_age
        readings = {
            gpu: reading
            for gpu, reading in (self._readings.last or {}).items()
            if reading.at >= oldest
        }
        if not readings:
            return readings
        for gpu, job in holders(snapshot).items():
            # A reading from before the job's start says nothing about this job.
            if gpu in readings and readings[gpu].at < (job.start_time or 0):
                del readings[gpu]
        return readings

    def memory(self) -> dict[str, int]:
        """Return the memory of jobs (MiB) that their sessions have reported lately."""
        return self.reported.memory(self.max_age)

    def take(self, job: Job, report: TelemetryReport, at: float, first: Node | None = None) -> None:
        """Take a session's report of its own ``job``, made at ``at`` (Unix seconds); ``first`` is
        the job's first node, if known.

        Raises InvalidRequest for impossible values, NotAllowed for a job that is not running or
        not the one in the report.
        """
        self.reported.take(job, report, at, first)

    def busy(self, reading: GpuReading | ReportedGpu) -> bool | None:
        """Return whether the GPU was used; None: unknown."""
        if reading.utilization is None or reading.mig:
            return None
        return reading.utilization >= self.busy_percent
