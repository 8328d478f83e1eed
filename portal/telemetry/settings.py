"""Settings of telemetry, except c.Telemetry.source, which is with the sources that it names."""

from __future__ import annotations

from traitlets import Enum, Float, Integer, List, Unicode
from traitlets.config import LoggingConfigurable

from .exporters import EXPORTERS


class TelemetrySettings(LoggingConfigurable):
    """Settings of Telemetry, which are passed to its sources."""

    prometheus_url = Unicode(
        "",
        help="""
        Address of the Prometheus that scrapes the nodes' DCGM exporters.
        Example: c.Telemetry.prometheus_url = "https://prometheus.example.org:9090"
        """,
    ).tag(config=True)

    prometheus_token_file = Unicode(
        "",
        help="""
        File with the bearer token for Prometheus; read for each query. Empty: no token.
        Example: c.Telemetry.prometheus_token_file = "/etc/data-scientist-portal/prometheus.token"
        """,
    ).tag(config=True)

    prometheus_ca_file = Unicode(
        "",
        help="""
        PEM file of the certificate authorities that Prometheus's certificate is checked against.
        Empty: the system's.
        Example: c.Telemetry.prometheus_ca_file = "/etc/ssl/site-ca.pem"
        """,
    ).tag(config=True)

    prometheus_node_label = Unicode(
        "Hostname",
        help="""
        Label of the node's name, with or without its domain. If a series lacks it, "instance" is
        used.
        Example: c.Telemetry.prometheus_node_label = "node"
        """,
    ).tag(config=True)

    prometheus_index_label = Unicode(
        "gpu",
        help="""
        Label of the GPU's index, as Slurm counts. Use "device" ("nvidia3") if Slurm's numbers match
        those of the device files and not NVML's.
        Example: c.Telemetry.prometheus_index_label = "device"
        """,
    ).tag(config=True)

    prometheus_exporters = List(
        Enum(list(EXPORTERS)),
        default_value=["dcgm"],
        help="""
        Exporters that Prometheus scrapes: "dcgm" (NVIDIA's), "amd" (AMD's Device Metrics Exporter;
        not tested on hardware, docs/how-to/amd-gpus.md), or both, each with its own query.
        Example: c.Telemetry.prometheus_exporters = ["dcgm", "amd"]
        """,
    ).tag(config=True)

    prometheus_timeout = Float(
        5.0,
        min=0.1,
        help="""
        Seconds after which a query to Prometheus is aborted. Pages do not wait for it.
        Example: c.Telemetry.prometheus_timeout = 10
        """,
    ).tag(config=True)

    interval = Float(
        15.0,
        min=0.0,
        help="""
        Minimum seconds between queries to Prometheus. Values below its scrape interval have no
        benefit.
        Example: c.Telemetry.interval = 30
        """,
    ).tag(config=True)

    patience = Float(
        1.0,
        min=0.0,
        help="""
        Seconds that one refresh of the pages waits for Prometheus. A later answer is shown at the
        next refresh.
        Example: c.Telemetry.patience = 2
        """,
    ).tag(config=True)

    busy_percent = Float(
        5.0,
        min=0.0,
        max=100.0,
        help="""
        Utilization in percent from which a GPU counts as busy.
        Example: c.Telemetry.busy_percent = 10
        """,
    ).tag(config=True)

    max_age = Integer(
        120,
        min=1,
        help="""
        Seconds after which a reading expires and the GPU's use is unknown again.
        Example: c.Telemetry.max_age = 300
        """,
    ).tag(config=True)

    report_interval = Float(
        2.0,
        min=0.0,
        help="""
        Minimum seconds between reports of one session; earlier ones are refused.
        Example: c.Telemetry.report_interval = 5
        """,
    ).tag(config=True)

    report_gap = Float(
        90.0,
        min=0.0,
        help="""
        Gaps between reports of a session that are longer than these seconds do not count as
        measured: three times c.PortalSpawner.telemetry_interval.
        Example: c.Telemetry.report_gap = 180
        """,
    ).tag(config=True)
