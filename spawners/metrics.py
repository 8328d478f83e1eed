"""Metrics of launches, and of the Hub's own Slurm commands and database, beside JupyterHub's at
``/hub/metrics``."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Counter, Histogram
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from portal.errors import PortalError, SlurmRefused
from portal.launch.kinds import KINDS
from portal.metrics.families import of_database, of_slurm
from portal.models.session.session import SessionRecord
from portal.models.session.stop_reason import StopCode
from portal.slurm import SlurmRunner
from portal.store import Store

_SECONDS = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 10800, 43200, 86400)

OUTCOMES = ("ready", "refused", "failed", "stopped")
LAUNCHES = Counter(
    "portal_launches",
    "Launches by outcome: Slurm 'refused' some; 'failed' and 'stopped' ended before 'ready'.",
    ("kind", "outcome"),
)
PHASES = Histogram(
    "portal_launch_phase_seconds",
    "Time of launches that became ready: in Slurm's queue, and from the job's start.",
    ("phase",),
    buckets=_SECONDS,
)


class HubCollector(Collector):
    """Collector of what the objects of the Hub's context count."""

    def __init__(self, runner: SlurmRunner, store: Store) -> None:
        self._runner, self._store = runner, store
        for kind in KINDS:
            for outcome in OUTCOMES:
                LAUNCHES.labels(kind.name, outcome)  # an increase needs a beginning at 0

    def collect(self) -> Iterator[Metric]:
        yield from of_slurm(self._runner)
        yield from of_database(self._store)


def count_ready(record: SessionRecord) -> None:
    """Count a launch whose session has just become ready."""
    LAUNCHES.labels(record.work, "ready").inc()
    if record.started_at is not None and record.ready_at is not None:
        PHASES.labels("queue").observe(max(0.0, record.started_at - record.submitted_at))
        PHASES.labels("start").observe(max(0.0, record.ready_at - record.started_at))


def count_end(record: SessionRecord) -> None:
    """Count a launch whose session has ended, or is left to its end, before it was ready."""
    if record.ready_at is not None:
        return
    stopped = record.stopped_by or record.ending_code in ("", "cancelled", *StopCode)
    LAUNCHES.labels(record.work, "stopped" if stopped else "failed").inc()


def count_refusal(kind: str, error: PortalError) -> None:
    """Count a launch without a job: refused by a rule of Slurm, or failed with any other error."""
    refused = isinstance(error, SlurmRefused)
    LAUNCHES.labels(kind, "refused" if refused else "failed").inc()
