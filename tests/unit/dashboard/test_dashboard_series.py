"""Quantities of a view that the history records by name."""

from __future__ import annotations

import asyncio

import pytest
from clusters import NOW, gpu_node, job, node, pool, reading, snapshot, waiting
from fake_watcher import ToldCluster, ToldTelemetry

from portal.dashboard import Dashboard
from portal.dashboard.series import series
from portal.models.cluster.cluster import ClusterSnapshot, JobState
from portal.models.cluster.gpu import GpuReading
from portal.slurm.reasons import queue_reason

TYPES = node("gpu01", pool(2, 0, 1)), node("gpu02", pool(2, type="t4"))


def recorded(
    told: ClusterSnapshot, *readings: GpuReading, since: float = NOW - 60
) -> dict[str, dict[str, tuple[float, int]]]:
    """Return total and count by kind and name."""
    telemetry = ToldTelemetry(*readings)
    dashboard = Dashboard(cluster=ToldCluster(told), telemetry=telemetry)
    asyncio.run(dashboard.refreshed())
    assert dashboard.view is not None
    found: dict[str, dict[str, tuple[float, int]]] = {}
    for sample in series(dashboard.view, telemetry.readings(told), since):
        found.setdefault(sample.kind, {})[sample.name] = sample.total, sample.count
    return found


def test_the_queue_by_partition_and_reason() -> None:
    queue = recorded(
        snapshot(
            waiting("1"),
            waiting("2", reason="QOSMaxGRESPerUser"),
            waiting("3", reason="AssocGrpCpuLimit"),
            waiting("4", partition="cpu", reason="Resources"),
            waiting("5", priority=0, reason="Priority"),
            waiting("6", state=JobState.REQUEUE_HOLD, reason="job requeued in held state"),
            job("7"),
        )
    )["queue"]
    assert queue == {
        "gpu/priority": (1, 1),
        "gpu/limit": (2, 1),
        "cpu/resources": (1, 1),
        "gpu/held": (2, 1),
    }


def test_the_names_of_a_queue_are_bounded() -> None:
    told = snapshot(*(waiting(str(number), partition=f"p{number}") for number in range(50)))
    queue = recorded(told)["queue"]
    assert len(queue) == 21 and queue[""] == (30, 1)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("Resources", "resources"),
        ("ReqNodeNotAvail, UnavailableNodes:gpu01", "other"),
        ("JobHeldAdmin", "held"),
        ("launch failed requeued held", "held"),
        ("MaxGRESPerAccount", "limit"),
        ("BeginTime", "time"),
        ("", "other"),
    ],
)
def test_a_reason_has_a_class(reason: str, kind: str) -> None:
    assert queue_reason(reason) == kind


def test_waits_of_jobs_that_have_started_since_the_last_sample() -> None:
    new = {"submit_time": NOW - 300, "start_time": NOW - 30}
    told = snapshot(
        *TYPES,
        job("1", held={"gpu01": (0,)}, **new),
        job("2", held={"gpu01": (1,)}, **{**new, "submit_time": NOW - 130}),
        job("3", held={"gpu02": (0,)}, gpu_type="t4", **new),
        job("4", **new),  # without GPUs
        job("5", held={"gpu02": (1,)}, start_time=NOW - 60),  # it was there before
        waiting("6", gpus=1, submit_time=NOW - 900),
    )
    assert recorded(told)["wait"] == {"v100": (370.0, 2), "t4": (270.0, 1)}


def test_power_by_type_where_it_is_known() -> None:
    told = snapshot(*TYPES)
    known = reading("gpu01", 0, 90.0, power=250.5), reading("gpu01", 1, 9.0, power=50.0)
    other = reading("gpu02", 0, 9.0), reading("gone", 0, 9.0, power=5.0)
    assert recorded(told, *known, *other)["power"] == {"v100": (300.5, 1)}
    assert "power" not in recorded(told, *other)


def test_nodes_by_what_is_held_and_used() -> None:
    told = snapshot(
        node("gpu01", pool(4, 0, 1)),
        gpu_node("gpu02", "t4", 2, used=1),
        node("gpu03", pool(2)),
        node("cpu01", cpus=16, cpus_allocated=4),
    )
    found = recorded(told, reading("gpu01", 0, 90.0), reading("gpu01", 1, 30.0))
    assert {name: total for name, (total, _) in found["held"].items()} == {
        "gpu01": 50.0,
        "gpu02": 50.0,
        "gpu03": 0.0,
        "cpu01": 25.0,
    }
    # A GPU that nobody holds is not used; of gpu02's, nobody knows.
    assert found["used"] == {"gpu01": (30.0, 1), "gpu03": (0.0, 1)}
    assert "used" not in recorded(told)
