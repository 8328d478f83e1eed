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
        The address of the Prometheus that scrapes the nodes' DCGM exporters.
        Example: c.Telemetry.prometheus_url = "https://prometheus.example.org:9090"
        """,
    ).tag(config=True)

    prometheus_token_file = Unicode(
        "",
        help="""
        A file with the bearer token for Prometheus; read for each query. Empty: no token.
        Example: c.Telemetry.prometheus_token_file = "/etc/data-scientist-portal/prometheus.token"
        """,
    ).tag(config=True)

    prometheus_ca_file = Unicode(
        "",
        help="""
        A PEM file with the trusted certificate authorities for Prometheus. Empty: those of the
        system. Example: c.Telemetry.prometheus_ca_file = "/etc/ssl/site-ca.pem"
        """,
    ).tag(config=True)

    prometheus_node_label = Unicode(
        "Hostname",
        help="""
        The label that names the node, with or without its domain. Series without this label use
        "instance". Example: c.Telemetry.prometheus_node_label = "node"
        """,
    ).tag(config=True)

    prometheus_index_label = Unicode(
        "gpu",
        help="""
        The label with the GPU's index in Slurm. Use "device" ("nvidia3") if Slurm's indexes are
        those of the device files and differ from NVML's.
        Example: c.Telemetry.prometheus_index_label = "device"
        """,
    ).tag(config=True)

    prometheus_exporters = List(
        Enum(list(EXPORTERS)),
        default_value=["dcgm"],
        help="""
        The exporters that Prometheus scrapes: "dcgm" (NVIDIA's), "amd" (AMD's Device Metrics
        Exporter; not tested on hardware, see docs/how-to/amd-gpus.md), or both, each with its own
        query. Example: c.Telemetry.prometheus_exporters = ["dcgm", "amd"]
        """,
    ).tag(config=True)

    prometheus_timeout = Float(
        5.0,
        min=0.1,
        help="""
        Timeout in seconds of a query to Prometheus. Pages do not wait for it.
        Example: c.Telemetry.prometheus_timeout = 10
        """,
    ).tag(config=True)

    interval = Float(
        15.0,
        min=0.0,
        help="""
        Minimum seconds between two queries to Prometheus; values below its scrape interval have no
        benefit. Example: c.Telemetry.interval = 30
        """,
    ).tag(config=True)

    patience = Float(
        1.0,
        min=0.0,
        help="""
        Seconds that a refresh of the pages waits for Prometheus; a later answer is shown by the
        next refresh. Example: c.Telemetry.patience = 2
        """,
    ).tag(config=True)

    busy_percent = Float(
        5.0,
        min=0.0,
        max=100.0,
        help="""
        Minimum utilisation of a busy GPU, in percent.
        Example: c.Telemetry.busy_percent = 10
        """,
    ).tag(config=True)

    max_age = Integer(
        120,
        min=1,
        help="""
        Seconds after which a reading expires: the GPU's use is then unknown.
        Example: c.Telemetry.max_age = 300
        """,
    ).tag(config=True)

    report_interval = Float(
        2.0,
        min=0.0,
        help="""
        Minimum seconds between two reports of a session; earlier reports are rejected.
        Example: c.Telemetry.report_interval = 5
        """,
    ).tag(config=True)

    report_gap = Float(
        90.0,
        min=0.0,
        help="""
        Seconds between two reports of a session above which the gap does not count as measured:
        three times c.PortalSpawner.telemetry_interval.
        Example: c.Telemetry.report_gap = 180
        """,
    ).tag(config=True)
