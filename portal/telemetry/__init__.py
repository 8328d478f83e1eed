"""What GPUs do: from DCGM through Prometheus, from the sessions themselves, or invented for a demo.

One interface in front of all: a reading of a GPU, with its moment and where it comes from. What
nobody measured has no reading, and reads "unknown".
"""

from __future__ import annotations

import asyncio
import math
import time

from traitlets import Enum, Float, Integer, Unicode
from traitlets.config import LoggingConfigurable

from ..cache import SharedAnswer
from ..errors import Unavailable
from ..models.cluster import ClusterSnapshot, Job, Node
from ..models.gpu import GpuReading
from ..models.telemetry import ReportedGpu, TelemetryReport
from .held import Gpu, holders
from .pace import Pace
from .prometheus import Prometheus
from .reported import Reported, sums
from .simulated import simulated

__all__ = ["Telemetry", "sums"]


class Telemetry(LoggingConfigurable):
    """The newest readings of the cluster's GPUs.

    ``error`` is "" or the sentence why the source does not answer, ``taken_at`` when it last did
    (Unix seconds; None: never). A source that is away leaves its last readings, until they are
    older than ``max_age``. Raises ConfigurationError for settings that cannot be.
    """

    source = Enum(
        ["none", "prometheus", "simulated"],
        default_value="none",
        help="""
        Where readings of all GPUs come from: "prometheus" (the DCGM exporter's metrics, see
        prometheus_url), "none", or "simulated", which invents them and says so on each page.
        Sessions report what their own GPUs do beside any of these; that is shown where the source
        has nothing, and never counted as usage. Example: c.Telemetry.source = "prometheus"
        """,
    ).tag(config=True)

    prometheus_url = Unicode(
        "",
        help="""
        The address of the Prometheus that scrapes the nodes' DCGM exporters.
        Example: c.Telemetry.prometheus_url = "https://prometheus.example.org:9090"
        """,
    ).tag(config=True)

    prometheus_token_file = Unicode(
        "",
        help="""
        A file with the bearer token for Prometheus; read at each question. Empty: no token.
        Example: c.Telemetry.prometheus_token_file = "/etc/data-scientist-portal/prometheus.token"
        """,
    ).tag(config=True)

    prometheus_ca_file = Unicode(
        "",
        help="""
        A PEM file of the authorities that may vouch for Prometheus's certificate. Empty: the
        system's. Example: c.Telemetry.prometheus_ca_file = "/etc/ssl/site-ca.pem"
        """,
    ).tag(config=True)

    prometheus_node_label = Unicode(
        "Hostname",
        help="""
        The label that names the node, with or without its domain; where a series has none,
        "instance" counts. Example: c.Telemetry.prometheus_node_label = "node"
        """,
    ).tag(config=True)

    prometheus_index_label = Unicode(
        "gpu",
        help="""
        The label that holds the GPU's index, as Slurm counts. "device" ("nvidia3") is right where
        the numbers of the device files are Slurm's and NVML's are others.
        Example: c.Telemetry.prometheus_index_label = "device"
        """,
    ).tag(config=True)

    prometheus_timeout = Float(
        5.0,
        min=0.1,
        help="""
        Seconds after which Prometheus is given up. Pages do not wait for it.
        Example: c.Telemetry.prometheus_timeout = 10
        """,
    ).tag(config=True)

    interval = Float(
        15.0,
        min=0.0,
        help="""
        Seconds between two questions to Prometheus at least; more often than it scrapes is of no
        use. Example: c.Telemetry.interval = 30
        """,
    ).tag(config=True)

    patience = Float(
        1.0,
        min=0.0,
        help="""
        Seconds that one refresh of the pages waits for Prometheus; a later answer is shown with
        the next one. Example: c.Telemetry.patience = 2
        """,
    ).tag(config=True)

    busy_percent = Float(
        5.0,
        min=0.0,
        max=100.0,
        help="""
        A GPU counts as busy from this utilisation on, in percent.
        Example: c.Telemetry.busy_percent = 10
        """,
    ).tag(config=True)

    max_age = Integer(
        120,
        min=1,
        help="""
        Seconds after which a reading says nothing any more: the GPU's use is unknown again.
        Example: c.Telemetry.max_age = 300
        """,
    ).tag(config=True)

    report_interval = Float(
        2.0,
        min=0.0,
        help="""
        Seconds between two reports of one session at least; one that comes earlier is refused.
        Example: c.Telemetry.report_interval = 5
        """,
    ).tag(config=True)

    report_gap = Float(
        90.0,
        min=0.0,
        help="""
        A pause between two reports of a session that is longer than these seconds does not count as
        measured: three times c.PortalSpawner.telemetry_interval.
        Example: c.Telemetry.report_gap = 180
        """,
    ).tag(config=True)

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.error = ""
        self.taken_at: float | None = None
        self._taken: float | None = None  # the same by the monotonic clock
        self.reported = Reported()
        self.pace = Pace(self.report_interval, self.report_gap)
        self._readings = SharedAnswer[dict[Gpu, GpuReading]](
            ttl=lambda _: self.interval, retry=math.inf, first={}
        )
        self._prometheus = self._make_prometheus() if self.source == "prometheus" else None

    def _make_prometheus(self) -> Prometheus:
        return Prometheus(
            self.prometheus_url,
            token_file=self.prometheus_token_file,
            ca_file=self.prometheus_ca_file,
            node_label=self.prometheus_node_label,
            index_label=self.prometheus_index_label,
            timeout=self.prometheus_timeout,
            log=self.log,
        )

    @property
    def simulated(self) -> bool:
        """Whether the readings are invented."""
        return self.source == "simulated"

    @property
    def age(self) -> float | None:
        """Seconds since the source last answered; None before that."""
        return None if self._taken is None else time.monotonic() - self._taken

    async def refresh(self, snapshot: ClusterSnapshot) -> None:
        """Ask the source. All callers share one question; none of them gets an exception."""
        if self.source == "simulated":
            self.taken_at, self._taken = time.time(), time.monotonic()
            self._readings.put(await asyncio.to_thread(simulated, snapshot, self.taken_at))
        source = self._prometheus
        if source is not None:
            await self._readings.get(lambda: self._ask(source, snapshot), patience=self.patience)

    async def _ask(
        self, prometheus: Prometheus, snapshot: ClusterSnapshot
    ) -> dict[Gpu, GpuReading]:
        problem = "Telemetry could not be read; the service's log tells why."
        try:
            readings = await prometheus.readings(snapshot, self.max_age)
            problem, self.taken_at, self._taken = "", time.time(), time.monotonic()
            return readings
        except Unavailable as error:
            problem = error.message
            raise
        finally:
            if problem and problem != self.error:
                self.log.warning("Telemetry: %s", problem)
            elif problem != self.error:
                self.log.info("Telemetry: Prometheus answers again.")
            self.error = problem

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
        oldest = time.time() - self.max_age
        last = self._readings.last or {}
        found = {gpu: one for gpu, one in last.items() if one.at >= oldest}
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
