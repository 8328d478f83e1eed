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

    prometheus_exporters = List(
        Enum(list(EXPORTERS)),
        default_value=["dcgm"],
        help="""
        The exporters that Prometheus scrapes: "dcgm" (NVIDIA's), "amd" (AMD's Device Metrics
        Exporter; unproven on hardware, docs/how-to/amd-gpus.md), or both, each with a question of
        its own. Example: c.Telemetry.prometheus_exporters = ["dcgm", "amd"]
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
