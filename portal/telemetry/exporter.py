"""Protocol of an exporter: a program on the nodes whose metrics Prometheus scrapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Exporter(Protocol):
    """Names of one exporter's metrics and labels."""

    name: str  # in c.Telemetry.prometheus_exporters; the source of its readings
    title: str  # in sentences
    utilization: str  # metric, in percent
    engine: str  # metric, a share from 0 to 1, if there is no percentage; "": none
    used: str  # metric, memory in MiB
    free: str  # metric, memory in MiB
    power: str  # metric, in watts
    uuid_label: str
    part_labels: tuple[str, ...]  # labels that ``part_of`` reads
    # Labels of node and index; "": those of c.Telemetry.prometheus_node_label and
    # prometheus_index_label.
    node_label: str
    index_label: str

    def part_of(self, labels: Mapping[str, str]) -> str:
        """Return the part of a divided GPU that a sample is of; "" for a whole GPU."""
        ...
