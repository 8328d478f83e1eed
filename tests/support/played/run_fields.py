"""Fields of a run's dialog, as the portal sends them: for ada, on a cluster with choices."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from clusters import ADA, gpu_node

from portal.launch.availability import availability
from portal.launch.choices.dialog_fields import DialogField, fields_of_run
from portal.launch.choices.field_choices import Facts
from portal.models.cluster.cluster import Association, ClusterSnapshot, Partition, Reservation

NOW = time.time()
ROWS = (
    Association(user="ada", account="physics", qos=("normal", "long"), is_default_account=True),
    Association(user="ada", account="biology", qos=("normal",)),
)
NODES = (gpu_node("gpu01", "v100", 4, features=("nvlink",)), gpu_node("cpu01"), gpu_node("cpu02"))
CLUSTER = ClusterSnapshot(
    taken_at=NOW,
    nodes={node.name: node for node in NODES},
    partitions={
        "cpu": Partition(name="cpu", default=True, nodes=("cpu01", "cpu02")),
        "gpu": Partition(name="gpu", nodes=("gpu01",)),
    },
    reservations={
        "ada-only": Reservation(
            name="ada-only", start_time=NOW, end_time=NOW + 86_400, users=("ada",)
        )
    },
)


def run_fields(kept: Mapping[str, Any] = {}, rows: Any = ROWS) -> tuple[DialogField, ...]:
    """Return the fields. ``kept``: options of the session; ``rows``: ada's associations."""
    supply = availability(CLUSTER, list(CLUSTER.partitions), NOW)
    return fields_of_run(Facts(CLUSTER, supply, rows, ADA, NOW), kept)


def choices() -> dict[str, Any]:
    """Return the part of the answer of ``session/runs/choices`` that portal-run reads."""
    return {"fields": [field.model_dump(mode="json") for field in run_fields()]}
