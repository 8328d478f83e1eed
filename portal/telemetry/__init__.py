"""Readings of GPUs: from a telemetry source (sources.py), and from the sessions themselves.

One interface in front of all: a reading of a GPU, with its moment and where it comes from. What
nobody measured has no reading, and reads "unknown".
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from traitlets import Enum

from ..cache import SharedAnswer
from ..errors import Unavailable
from ..models.cluster.cluster import ClusterSnapshot, Job, Node
from ..models.cluster.gpu import GpuReading
from ..models.session.telemetry import ReportedGpu, TelemetryReport
from .gpu_holders import Gpu, holders
from .rate_limit import Pace
from .reported import Reported, sums
from .settings import TelemetrySettings
from .sources import SOURCES

__all__ = ["Telemetry", "sums"]


class Telemetry(TelemetrySettings):
    """The newest readings of the cluster's GPUs.

    ``error`` is "" or the sentence why the source does not answer, ``taken_at`` when it last did
    (Unix seconds; None: never). A source that is away leaves its last readings, until they are
    older than ``max_age``. Raises ConfigurationError for settings that cannot be.
    """

    source = Enum(
        list(SOURCES),
        default_value="none",
        help="""
        Where readings of all GPUs come from: "prometheus" (the DCGM exporter's metrics, see
        prometheus_url), "none", or "simulated", which invents them and says so on each page.
        Sessions report what their own GPUs do beside any of these; that is shown where the source
        has nothing, and never counted as usage. Example: c.Telemetry.source = "prometheus"
        """,
    ).tag(config=True)

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.error = ""
        self.taken_at: float | None = None
        self._taken: float | None = None  # the same by the monotonic clock
        self.reported = Reported()
        self.pace = Pace(self.report_interval, self.report_gap)
        self._source = SOURCES[self.source](self)
        self._readings = SharedAnswer[Mapping[Gpu, GpuReading]](
            ttl=lambda _: self._source.pause, retry=math.inf, first={}
        )

    @property
    def simulated(self) -> bool:
        """Whether the readings are invented."""
        return self._source.simulated

    @property
    def age(self) -> float | None:
        """Seconds since the source last answered; None before that."""
        return None if self._taken is None else time.monotonic() - self._taken

    async def refresh(self, snapshot: ClusterSnapshot) -> None:
        """Ask the source. All callers share one question; none of them gets an exception."""
        await self._readings.get(lambda: self._ask(snapshot), patience=self.patience)

    async def _ask(self, snapshot: ClusterSnapshot) -> Mapping[Gpu, GpuReading]:
        problem = "Telemetry could not be read; the service's log tells why."
        try:
            found = await self._source.readings(snapshot, self.max_age)
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
        if found is None:
            return self._readings.last or {}
        self.taken_at, self._taken = time.time(), time.monotonic()
        return found

    def readings(self, snapshot: ClusterSnapshot) -> dict[Gpu, GpuReading]:
        """The newest reading per (node, Slurm's index); too old ones are left out.

        Sessions' own reports stand where the source says nothing.
        """
        found = self.accountable(snapshot)
        for gpu, reading in self.reported.readings(snapshot, self.max_age).items():
            known = found.get(gpu)
            if known is None or (known.utilization is None and not known.mig):
                found[gpu] = reading
        return found

    def accountable(self, snapshot: ClusterSnapshot) -> dict[Gpu, GpuReading]:
        """The same without sessions' own reports: what usage may be counted from."""
        now = time.time()
        if self.taken_at is not None and self._taken is not None:
            # The clock that gave them their times may have been set since.
            now = self.taken_at + time.monotonic() - self._taken
        oldest = now - self.max_age
        found = {gpu: one for gpu, one in (self._readings.last or {}).items() if one.at >= oldest}
        if not found:
            return found
        for gpu, job in holders(snapshot).items():
            # What a GPU did before this job had it says nothing about this job.
            if gpu in found and found[gpu].at < (job.start_time or 0):
                del found[gpu]
        return found

    def take(self, job: Job, report: TelemetryReport, at: float, first: Node | None = None) -> None:
        """Take a session's report of its own ``job``, made at ``at`` (Unix seconds); ``first`` is
        the job's first node, where that is known.

        Raises InvalidRequest for what cannot be, NotAllowed for a job that is not running or not
        the one in the report.
        """
        self.reported.take(job, report, at, first)

    def busy(self, reading: GpuReading | ReportedGpu) -> bool | None:
        """Whether the GPU was used; None is unknown."""
        if reading.utilization is None or reading.mig:
            return None
        return reading.utilization >= self.busy_percent
