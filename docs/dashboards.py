"""Grafana's dashboards of the portal, written as JSON into deploy/grafana: sites import those.

    make dashboards

Panels read metrics of the Hub and the service (docs/how-to/monitor.md). The data source is a
variable of each dashboard. Sources: https://grafana.github.io/grafana-foundation-sdk/.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef, ValueMap
from grafana_foundation_sdk.models.dashboard import ValueMappingResult as Mapped

FOLDER = Path(__file__).resolve().parents[1] / "deploy/grafana"
_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH, _HEIGHT, _STAT_HEIGHT = 8, 8, 4  # Grafana's grid has 24 columns
_MINUTE = "$__rate_interval"


class Graph(NamedTuple):
    """Panel over time. ``queries``: PromQL and the legend; ``unit``: Grafana's name of one."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    text: str = ""


class Number(NamedTuple):
    """Panel with the newest value. ``up``: 1 is good and 0 is not."""

    title: str
    unit: str
    query: str
    text: str = ""
    up: bool = False


def rate(metric: str, by: str = "", labels: str = "") -> str:
    """Return the rate per second of a counter, added up except for the labels ``by``."""
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} (rate({metric}{labels}[{_MINUTE}]))"


def mean(metric: str, by: str = "") -> str:
    """Return the mean of what a summary or histogram has measured."""
    return f"{rate(metric + '_sum', by)} / {rate(metric + '_count', by)}"


def quantile(share: float, metric: str, labels: str = "", of: str = _MINUTE) -> str:
    """Return a quantile of a histogram."""
    return f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket{labels}[{of}])))"


def p50_and_p95(metric: str, labels: str = "", of: str = _MINUTE) -> list[tuple[str, str]]:
    """Return the queries of the median and of what one in twenty exceeds."""
    return [(quantile(q, metric, labels, of), f"p{100 * q:.0f}") for q in (0.5, 0.95)]


OPERATIONS = [
    Number("Service", "", "max(portal_up)", up=True),
    Number("Slurm", "", "min(portal_slurm_up)", up=True),
    Number("Database", "", "min(portal_database_up)", up=True),
    Number("GPU telemetry", "", "min(portal_telemetry_up)", up=True),
    Number(
        "Last backup",
        "s",
        'time() - max(portal_backup_timestamp_seconds{outcome="done"})',
        "Time since the last backup that was complete.",
    ),
    Number(
        "Certificates",
        "s",
        "min(portal_certificate_expiry_timestamp_seconds"
        " or portal_ldap_certificate_expiry_timestamp_seconds) - time()",
        "Time until the first certificate expires: of the portal's address, or of LDAP.",
    ),
    Graph(
        "Requests by status", "reqps",
        [(rate("portal_request_seconds_count", "status"), "{{status}}")],
    ),
    Graph("Time of requests", "s", p50_and_p95("portal_request_seconds")),
    Graph(
        "Lag of the event loop", "s",
        [(quantile(0.99, "portal_event_loop_lag_seconds"), "p99")],
        "While the loop of the service is blocked, all pages wait.",
    ),
    Graph(
        "Slurm commands", "ops",
        [(rate("portal_slurm_commands_total", "job, command"), "{{job}} {{command}}")],
    ),
    Graph(
        "Time of Slurm commands", "s",
        [
            (
                f"{rate('portal_slurm_command_seconds_total', 'command')}"
                f" / {rate('portal_slurm_commands_total', 'command')}",
                "{{command}}",
            )
        ],
    ),
    Graph(
        "Failed Slurm commands", "ops",
        [(rate("portal_slurm_command_failures_total", "command"), "{{command}}")],
    ),
    Graph(
        "Age of the cluster's state", "s",
        [
            ("max(portal_watcher_age_seconds)", "age"),
            ("max(portal_refresh_seconds)", "time to refresh"),
        ],
    ),
    Graph(
        "Time of database queries", "s",
        [(mean("portal_database_query_seconds", "job"), "{{job}}")],
    ),
    Graph(
        "Failed database queries", "ops",
        [(rate("portal_database_query_failures_total", "job"), "{{job}}")],
    ),
    Graph(
        "Questions to LDAP", "ops",
        [(rate("portal_ldap_request_seconds_count", "outcome"), "{{outcome}}")],
    ),
    Graph("Time of questions to LDAP", "s", p50_and_p95("portal_ldap_request_seconds")),
    Graph(
        "Free disk space", "bytes",
        [("min by (folder) (portal_disk_free_bytes)", "{{folder}}")],
        "Below 32 MiB nothing new starts.",
    ),
    Graph(
        "Memory", "bytes",
        [('max by (job) (process_resident_memory_bytes{job=~"portal|jupyterhub"})', "{{job}}")],
    ),
    Graph(
        "CPU", "percentunit",
        [(rate("process_cpu_seconds_total", "job", '{job=~"portal|jupyterhub"}'), "{{job}}")],
    ),
    Graph("Open pages", "", [("sum(portal_viewers)", "event streams")]),
    Graph(
        "Tests of the catalog", "",
        [("max by (verdict) (portal_catalog_environments)", "{{verdict}}")],
        "Environments by the verdict of their newest tests.",
    ),
]  # fmt: skip

GPUS = [
    Graph(
        "GPUs", "",
        [("max by (state) (portal_gpus)", "{{state}}")],
        "What Slurm has allocated, and what nodes that are down or drained withhold.",
    ),
    Graph(
        "Allocated share", "percentunit",
        [('sum(portal_gpus{state=~"busy|idle|allocated"}) / sum(portal_gpus)', "allocated")],
    ),
    Graph("Jobs of the cluster", "", [("max by (state) (portal_jobs)", "{{state}}")]),
    Graph("Sessions of the portal", "", [("max by (state) (portal_sessions)", "{{state}}")]),
    Graph(
        "Waiting in the queue", "",
        [('max by (kind) (portal_works{state="pending"})', "{{kind}}")],
    ),
    Graph(
        "Oldest wait", "s",
        [("max(portal_queue_oldest_age_seconds)", "oldest")],
        "Of the jobs that the portal has submitted.",
    ),
    Graph("Time in the queue", "s",
        p50_and_p95("portal_launch_phase_seconds", '{phase="queue"}', "1h")),
    Graph("Users", "", [("max(portal_users_with_works)", "with a session or a run")]),
]  # fmt: skip

LAUNCHES = [
    Graph(
        "Launches per hour", "",
        [("sum by (outcome) (increase(portal_launches_total[1h]))", "{{outcome}}")],
        "'refused': by a rule of Slurm; 'failed' and 'stopped' ended before they were ready.",
    ),
    Graph(
        "Failed share", "percentunit",
        [
            (
                'sum(increase(portal_launches_total{outcome="failed"}[1h]))'
                ' / sum(increase(portal_launches_total{outcome=~"ready|failed"}[1h]))',
                "failed",
            )
        ],
    ),
    Graph(
        "Launches by kind per hour", "",
        [("sum by (kind) (increase(portal_launches_total[1h])) > 0", "{{kind}}")],
    ),
    Graph("Time in the queue", "s",
        p50_and_p95("portal_launch_phase_seconds", '{phase="queue"}', "1h")),
    Graph(
        "Time from the job's start", "s",
        p50_and_p95("portal_launch_phase_seconds", '{phase="start"}', "1h"),
        "Container, imports and extensions, until the Hub knows the server.",
    ),
    Graph("What has not ended", "",
        [("max by (kind, state) (portal_works)", "{{kind}} {{state}}")]),
]  # fmt: skip

ENDPOINTS = [
    Number("Gateway", "", "min(portal_gateway_up)", up=True),
    Number("Ready endpoints", "", 'sum(portal_endpoints{state="ready"})'),
    Number("Failed endpoints", "", 'sum(portal_endpoints{state="failed"})'),
    Graph("Endpoints", "", [("max by (state) (portal_endpoints)", "{{state}}")]),
    Graph(
        "Requests now", "",
        [
            ("sum(portal_gateway_requests_in_flight)", "at a replica"),
            ("sum(portal_gateway_requests_waiting)", "waiting for a replica"),
        ],
    ),
    Graph(
        "Requests", "reqps",
        [
            (rate("portal_gateway_requests_total"), "forwarded"),
            (rate("portal_gateway_errors_total"), "failed by a replica"),
        ],
    ),
    Graph(
        "Refused requests", "reqps",
        [(rate("portal_gateway_refusals_total", "status"), "{{status}}")],
    ),
    Graph("Time of answers", "s", p50_and_p95("portal_gateway_request_seconds")),
    Graph("Tokens", "ops", [(rate("portal_gateway_tokens_total"), "made")]),
]  # fmt: skip

DASHBOARDS = {
    "operations": ("Portal: operations", OPERATIONS),
    "gpus-and-queues": ("Portal: GPUs and queues", GPUS),
    "launches": ("Portal: launches", LAUNCHES),
    "endpoints": ("Portal: endpoints", ENDPOINTS),
}


def made(name: str) -> str:
    """Return a dashboard as JSON."""
    title, panels = DASHBOARDS[name]
    board = (
        dashboard.Dashboard(title)
        .uid(f"data-scientist-portal-{name}")
        .tags(["data-scientist-portal"])
        .refresh("1m")
        .time("now-6h", "now")
        .timezone("browser")
        .with_variable(
            dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
    )
    for panel in panels:
        board = board.with_panel(_panel(panel))
    written = json.loads(JSONEncoder().encode(board.build()))
    return json.dumps(_without_nulls(written), sort_keys=True, indent=1) + "\n"


def _without_nulls(value: Any) -> Any:
    """Return a JSON value without the options that the library names and nobody has set."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _panel(panel: Graph | Number) -> Any:
    if isinstance(panel, Number):
        shown: Any = stat.Panel().height(_STAT_HEIGHT).span(4)
        shown = shown.with_target(_target(panel.query, "", "A").instant())
        if panel.up:
            words = {"1": Mapped(text="up", color="green"), "0": Mapped(text="down", color="red")}
            shown = shown.mappings([ValueMap(options=words)])
    else:
        shown = timeseries.Panel().height(_HEIGHT).span(_WIDTH).min(0)
        for index, (query, legend) in enumerate(panel.queries):
            shown = shown.with_target(_target(query, legend, chr(ord("A") + index)))
    shown = shown.title(panel.title).description(panel.text).datasource(_SOURCE)
    return shown.unit(panel.unit) if panel.unit else shown


def _target(query: str, legend: str, ref: str) -> Any:
    target = prometheus.Dataquery().expr(query).ref_id(ref).datasource(_SOURCE)
    return target.legend_format(legend) if legend else target


def main() -> None:
    """Write all dashboards."""
    for name in DASHBOARDS:
        (FOLDER / f"{name}.json").write_text(made(name))


if __name__ == "__main__":
    main()
