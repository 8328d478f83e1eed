"""``/services/portal/metrics``: state of the service itself, for Prometheus.

The name of a route is the only label that comes from a request, and there are as many as routes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from traitlets.config import Config

from portal import __version__
from portal.assembly import Services
from portal.directory.measured import LDAP_CERTIFICATES, LDAP_SECONDS
from portal.errors import NotAllowed
from portal.metrics.families import of_database, of_slurm
from portal.metrics.figures import Figures
from portal.metrics.loop_lag import LoopLag
from portal.models.cluster.gpu import GpuState
from portal.models.scope import METRICS_READ

from ..base.base import APIHandler
from ..base.endpoint import Endpoint

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class Metrics:
    """Metrics that are counted here, and those collected from the services on each scrape."""

    def __init__(self, parts: Services, config: Config) -> None:
        self.registry = CollectorRegistry()
        self._figures = Figures(parts, config)
        self._collector = ServicesCollector(parts)
        for collector in (self._collector, LDAP_SECONDS, LDAP_CERTIFICATES):
            self.registry.register(collector)
        self.lag = LoopLag(self.registry)
        for kind in (ProcessCollector, PlatformCollector, GCCollector):
            kind(registry=self.registry)
        self.viewers = Gauge("portal_viewers", "Open event streams.", registry=self.registry)
        self._requests = Histogram(
            "portal_request_seconds",
            "Time to answer a request (event streams excluded).",
            ("route", "method", "status"),
            buckets=_SECONDS,
            registry=self.registry,
        )

    async def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the format that the client prefers, and its media type."""
        self._collector.figures = await self._figures.get()
        encode, media = choose_encoder(accept)
        return encode(self.registry), media

    def count(self, handler: Any) -> None:
        """Count a request that was answered."""
        if isinstance(handler, Endpoint) and not handler.timed:
            return
        route = getattr(handler, "path", "") if isinstance(handler, Endpoint) else ""
        method = str(handler.request.method)
        self._requests.labels(
            route or type(handler).__name__,
            method if method in handler.SUPPORTED_METHODS else "other",
            f"{handler.get_status() // 100}xx",
        ).observe(handler.request.request_time())


class ServicesCollector(Collector):
    """Collector of the state of the services at the time of a scrape; ``figures``: those that a
    query has found."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts
        self.figures: tuple[Metric, ...] = ()

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("portal_up", "Whether the service runs.", value=1)
        yield InfoMetricFamily("portal", "The portal.", value={"version": __version__})
        yield from self._watcher()
        yield from of_slurm(self._parts.cluster.runner)
        yield from of_database(self._parts.store)
        yield from self._telemetry()
        yield from self.figures

    def _watcher(self) -> Iterator[Metric]:
        dashboard = self._parts.dashboard
        view = dashboard.view
        yield GaugeMetricFamily(
            "portal_slurm_up",
            "Whether Slurm answered the last query.",
            value=float(view is not None and not view.error),
        )
        if view is None:
            return
        if dashboard.refresh_seconds is not None:
            yield GaugeMetricFamily(
                "portal_refresh_seconds",
                "Duration of the last refresh of the cluster, including processing.",
                value=dashboard.refresh_seconds,
            )
        yield GaugeMetricFamily(
            "portal_watcher_age_seconds",
            "Time since Slurm last answered.",
            value=view.snapshot.age,
        )
        sessions = GaugeMetricFamily(
            "portal_sessions", "Sessions whose jobs Slurm knows.", labels=("state",)
        )
        jobs = GaugeMetricFamily("portal_jobs", "Slurm's jobs.", labels=("state",))
        for state in ("running", "pending"):
            sessions.add_metric([state], getattr(view.summary, f"sessions_{state}"))
            jobs.add_metric([state], getattr(view.summary, f"jobs_{state}"))
        gpus = GaugeMetricFamily("portal_gpus", "GPUs of the cluster.", labels=("state",))
        for gpu_state in GpuState:
            gpus.add_metric([gpu_state.value], view.summary.gpus.get(gpu_state, 0))
        yield from (sessions, jobs, gpus)

    def _telemetry(self) -> Iterator[Metric]:
        telemetry = self._parts.telemetry
        yield GaugeMetricFamily(
            "portal_telemetry_up",
            "Whether the source of GPU telemetry answers.",
            value=float(not telemetry.error),
        )
        if (age := telemetry.age) is not None:
            yield GaugeMetricFamily(
                "portal_telemetry_age_seconds",
                "Time since the source of GPU telemetry last answered.",
                value=age,
            )


class MetricsHandler(APIHandler):
    """Exposition, in the format that the client prefers."""

    async def get(self) -> None:
        # One token reads the Hub's metrics and these: JupyterHub's own scope suffices.
        if not (self.person.may(METRICS_READ) or self.person.may("read:metrics")):
            raise NotAllowed(
                f"You are not allowed to do this: it requires the scope '{METRICS_READ}'."
            )
        metrics: Metrics = self.settings["metrics"]
        body, media = await metrics.exposition(self.request.headers.get("Accept", ""))
        self.set_header("Content-Type", media)
        self.finish(body)

    head = get
