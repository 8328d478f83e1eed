"""Metrics of what the Hub and the service both have: Slurm's commands and the database."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from portal.slurm import SlurmRunner
from portal.store import Store


def of_slurm(runner: SlurmRunner) -> Iterator[Metric]:
    """Yield numbers, failures and durations of Slurm's commands."""
    for name, text, counts in (
        ("portal_slurm_commands", "Slurm commands started.", runner.runs),
        ("portal_slurm_command_failures", "Slurm commands failed.", runner.failures),
        ("portal_slurm_command_seconds", "Duration of Slurm commands.", runner.seconds),
    ):
        family = CounterMetricFamily(name, text, labels=("command",))
        # Each command that was started has a row, also of failures: their rate begins at 0.
        for command in tuple(runner.runs):
            family.add_metric([command], counts.get(command, 0))
        yield family


def of_database(store: Store) -> Iterator[Metric]:
    """Yield state, failures and durations of the portal's database."""
    database = store.database
    yield GaugeMetricFamily(
        "portal_database_up",
        "Whether the portal's database answers.",
        value=float(not store.error),
    )
    yield SummaryMetricFamily(
        "portal_database_query_seconds",
        "Time of a query to the portal's database, waiting included.",
        count_value=database.queries,
        sum_value=database.query_seconds,
    )
    yield CounterMetricFamily(
        "portal_database_query_failures",
        "Queries that the portal's database did not answer.",
        value=database.failures,
    )
