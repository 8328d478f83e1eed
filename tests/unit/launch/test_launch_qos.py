"""QOS in the launch: which one a session gets, where it may be used, what it limits."""

from __future__ import annotations

import time
from typing import Any

import pytest

from portal.errors import NotAllowed
from portal.launch.limits.qos import effective_qos
from portal.launch.partitions import allowed_partitions
from portal.launch.policy import decide
from portal.launch.request import Asked
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import (
    Association,
    ClusterSnapshot,
    GpuPool,
    Node,
    Partition,
    Qos,
)
from portal.models.person import Person
from portal.models.session.resources import Resources

ADA = Person(name="ada")
LAB = Environment(name="lab", title="Lab", kind="venv", path="/opt/lab")
ROW = Association(
    user="ada", account="research", qos=("normal", "short", "long"), is_default_account=True
)
HOUR = 3600
QOS = {
    "normal": Qos(name="normal"),
    "short": Qos(
        name="short",
        max_wall=HOUR,
        max_tres={
            "job": {"gres/gpu": 3, "gres/gpu:v100": 1, "cpu": 8},
            "user": {"gres/gpu": 2, "mem": 8192},
            "node": {"cpu": 4},
        },
    ),
    "long": Qos(name="long", max_wall=100 * HOUR, flags=("PartitionTimeLimit",)),
}


def cluster(known: dict[str, Qos] | None = None, **partition: Any) -> ClusterSnapshot:
    """Two nodes with GPUs in "gpu" (24 hours), which ``partition`` changes, and "cpu"."""
    pools = (GpuPool(type="v100", count=4), GpuPool(type="t4", count=4))
    usual = {"state": "IDLE", "address": "127.0.0.1", "cpus": 64, "memory": 64000}
    nodes = {name: Node(name=name, gpus=pools, **usual) for name in ("gpu01", "gpu02")}
    nodes["cpu01"] = Node(name="cpu01", **usual)
    gpu = {"default": True, "nodes": ("gpu01", "gpu02"), "max_time": 24 * HOUR, **partition}
    return ClusterSnapshot(
        taken_at=time.time(),
        nodes=nodes,
        partitions={
            "gpu": Partition(name="gpu", **gpu),
            "cpu": Partition(name="cpu", nodes=("cpu01",)),
        },
        qos=QOS if known is None else known,
    )


def judge(
    options: dict[str, Any],
    snapshot: ClusterSnapshot | None = None,
    rows: tuple[Association, ...] | None = (ROW,),
) -> Resources:
    defaults = Resources(time="0:30:00")
    asked = Asked.parse(options)
    return decide(asked, ADA, {"lab": LAB}, snapshot or cluster(), rows, defaults).resources


def refusal(*arguments: Any) -> str:
    with pytest.raises(NotAllowed) as caught:
        judge(*arguments)
    return caught.value.message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"time": "2:00:00"}, "The QOS 'short' allows a time limit of at most 1 h."),
        ({"gpus": 3, "gpu_type": "t4"}, "The QOS 'short' allows at most 2 GPUs in one session."),
        ({"gpus": 2, "nodes": 2}, "The QOS 'short' allows at most 2 GPUs in one session."),
        ({"gpus": 2, "gpu_type": "v100"}, "The QOS 'short' allows at most 1 v100 GPU in one"),
        ({"cpus": 9}, "The QOS 'short' allows at most 8 CPUs in one session."),
        ({"cpus": 5}, "The QOS 'short' allows at most 4 CPUs on one node."),
        ({"memory": "9G"}, "The QOS 'short' allows at most 8G of memory in one session."),
    ],
)
def test_what_is_over_a_qos_limit_is_refused(options: dict[str, Any], words: str) -> None:
    assert words in refusal({"qos": "short", **options})
    judge(options)  # the QOS 'normal' has no limit


def test_what_is_within_a_qos_limit_is_launched() -> None:
    options = {"time": "1:00:00", "gpus": 2, "gpu_type": "t4", "cpus": 4, "memory": "8G"}
    assert judge({"qos": "short", **options}).qos == "short"


@pytest.mark.parametrize(
    ("row", "qos"),
    [
        ({"default_qos": "short"}, "short"),
        ({"qos": ("short",)}, "short"),
        ({}, "normal"),
    ],
)
def test_the_qos_of_a_session_that_names_none(row: dict[str, Any], qos: str) -> None:
    rows = (ROW.model_copy(update=row),)
    assert effective_qos(None, None, "gpu", rows) == qos
    if qos == "short":
        assert "The QOS 'short'" in refusal({"time": "2:00:00"}, None, rows)
    else:
        judge({"time": "2:00:00"}, None, rows)


def test_the_default_account_says_the_default_qos() -> None:
    other = Association(user="ada", account="dl101", qos=("short",))
    bound = ROW.model_copy(update={"partition": "gpu", "default_qos": "long"})
    rows = (other, ROW, bound)
    assert effective_qos(None, None, "cpu", rows) == "normal"
    assert effective_qos(None, None, "gpu", rows) == "long"
    assert effective_qos(None, "dl101", "gpu", rows) == "short"
    assert effective_qos("short", None, "gpu", rows) == "short"
    assert effective_qos(None, None, "gpu", None) is None


def test_a_qos_limit_comes_before_the_associations() -> None:
    rows = (ROW.model_copy(update={"max_wall": HOUR, "max_gpus_per_job": 1}),)
    assert "Your account allows a time limit of at most 1 h" in refusal(
        {"time": "2:00:00"}, None, rows
    )
    assert judge({"time": "2:00:00", "qos": "long"}, None, rows).time == 2 * HOUR
    assert "Your account allows at most 1 GPU in" in refusal({"gpus": 2, "qos": "long"}, None, rows)


def test_a_partitions_own_qos_comes_first() -> None:
    own = Qos(name="of-gpu", max_wall=2 * HOUR)
    snapshot = cluster({**QOS, "of-gpu": own}, qos="of-gpu")
    two, three = {"time": "2:00:00", "gpus": 1}, {"time": "3:00:00", "gpus": 1}
    assert judge({**two, "qos": "short"}, snapshot).time == 2 * HOUR
    assert "The QOS 'of-gpu' allows a time limit of at most 2 h" in refusal(three, snapshot)
    over = QOS["short"].model_copy(update={"flags": ("OverPartQOS",)})
    snapshot = cluster({**QOS, "of-gpu": own, "short": over}, qos="of-gpu")
    assert "The QOS 'short' allows" in refusal({**two, "qos": "short"}, snapshot)


def test_a_qos_may_lift_the_partitions_time() -> None:
    options = {"time": "48:00:00", "gpus": 1}
    assert "The partition 'gpu' allows a time limit of at most 1 d" in refusal(options)
    assert judge({**options, "qos": "long"}).time == 48 * HOUR


@pytest.mark.parametrize("rule", [{"allow_qos": ("normal", "long")}, {"deny_qos": ("short",)}])
def test_a_partition_that_does_not_take_the_qos(rule: dict[str, Any]) -> None:
    snapshot = cluster(**rule)
    words = "The QOS 'short' is not allowed in the partition 'gpu'."
    assert words in refusal({"qos": "short", "partition": "gpu"}, snapshot)
    takes = "Allowed: normal, long." if "allow_qos" in rule else words
    assert refusal({"qos": "short", "partition": "gpu"}, snapshot).endswith(takes)
    # It is not chosen either: a session without GPUs goes elsewhere, one with GPUs is refused.
    only_gpu = snapshot.model_copy(update={"partitions": {"gpu": snapshot.partitions["gpu"]}})
    assert words in refusal({"qos": "short"}, only_gpu)
    assert judge({"qos": "short"}, snapshot).partition == "cpu"
    assert judge({"gpus": 1}, snapshot).partition == "gpu"
    # Whoever has no other QOS is not offered the partition.
    rows = (ROW.model_copy(update={"qos": ("short",)}),)
    assert [p.name for p in allowed_partitions(ADA, snapshot, rows)] == ["cpu"]
    assert [p.name for p in allowed_partitions(ADA, snapshot, (ROW,))] == ["gpu", "cpu"]


def test_what_is_not_known_is_left_to_slurm() -> None:
    options = {"qos": "short", "time": "20:00:00", "gpus": 4}
    assert judge(options, cluster({})).qos == "short"
    assert judge(options, cluster({}), None).qos == "short"
