"""Settings of telemetry, except c.Telemetry.source, which is with the sources that it names."""

from __future__ import annotations

from traitlets import Float, Integer, List, Unicode
from traitlets.config import LoggingConfigurable

from ..plugins import PluginName
from ..setting import setting
from .exporters import EXPORTERS


class TelemetrySettings(LoggingConfigurable):
    """Settings of Telemetry, which are passed to its sources."""

    prometheus_url = setting(
        Unicode(""),
        "Address of the Prometheus that scrapes the nodes' DCGM exporters.",
        'c.Telemetry.prometheus_url = "https://prometheus.example.org:9090"',
    )

    prometheus_token_file = setting(
        Unicode(""),
        "File with the bearer token for Prometheus; read for each query. Empty: no token.",
        'c.Telemetry.prometheus_token_file = "/etc/data-scientist-portal/prometheus.token"',
    ).tag(backup="secret")

    prometheus_ca_file = setting(
        Unicode(""),
        """PEM file of the certificate authorities that Prometheus's certificate is checked against.
        Empty: the system's.""",
        'c.Telemetry.prometheus_ca_file = "/etc/ssl/site-ca.pem"',
    ).tag(backup="files")

    prometheus_node_label = setting(
        Unicode("Hostname"),
        """Label of the node's name, with or without its domain. If a series lacks it, "instance" is
        used.""",
        'c.Telemetry.prometheus_node_label = "node"',
    )

    prometheus_index_label = setting(
        Unicode("gpu"),
        """Label of the GPU's index, as Slurm counts. Use "device" ("nvidia3") if Slurm's numbers
        match those of the device files and not NVML's.""",
        'c.Telemetry.prometheus_index_label = "device"',
    )

    prometheus_exporters = setting(
        List(PluginName(EXPORTERS, "exporters"), default_value=["dcgm"]),
        """Exporters that Prometheus scrapes: "dcgm" (NVIDIA's), "amd" (AMD's Device Metrics
        Exporter; not tested on hardware, docs/how-to/amd-gpus.md), entry points of
        "data_scientist_portal.exporters", or several, each with its own query.""",
        'c.Telemetry.prometheus_exporters = ["dcgm", "amd"]',
    )

    # Seconds after which a query to Prometheus is aborted. Pages do not wait for it.
    prometheus_timeout = Float(5.0, min=0.1)

    interval = setting(
        Float(15.0, min=0.0),
        """Minimum seconds between queries to Prometheus. Values below its scrape interval have no
        benefit.""",
        "c.Telemetry.interval = 30",
    )

    # Seconds that a refresh of the pages waits for Prometheus; a later answer is shown at the next.
    patience = Float(1.0)

    busy_percent = setting(
        Float(5.0, min=0.0, max=100.0),
        "Utilization in percent from which a GPU counts as busy.",
        "c.Telemetry.busy_percent = 10",
    )

    max_age = setting(
        Integer(120, min=1),
        "Seconds after which a reading expires and the GPU's use is unknown again.",
        "c.Telemetry.max_age = 300",
    )

    # Minimum seconds between reports of one session; earlier ones are refused. Sessions wait 2 s at
    # least (kernels/portal_session/measurements/telemetry.py), and a report can be delayed.
    report_interval = Float(1.0)

    @property
    def report_gap(self) -> float:
        """Maximum seconds between two reports of a session for the time between them to count as
        measured: three intervals of its reports, at least 90."""
        return max(90.0, 3 * self.config.PortalSpawner.get("telemetry_interval", 0.0))
