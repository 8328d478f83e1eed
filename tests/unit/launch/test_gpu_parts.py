"""Parts of GPUs as types of their own: MIG slices, shards and MPS, from the choice to sbatch."""

from __future__ import annotations

import time
from typing import Any

import pytest

from portal.catalog.builds.testing import gpu_types_of, types_to_test, usable_nodes
from portal.errors import NotAllowed
from portal.launch.availability import availability
from portal.launch.estimate import room_now
from portal.launch.fields import OF, sbatch_pairs
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
from portal.models.cluster.gpu_share import (
    Share,
    Slice,
    part_words,
    share_of,
    slice_of,
    type_title,
)
from portal.models.person import Person
from portal.models.session.resources import Resources

ADA = Person(name="ada")
LAB = Environment(name="lab", title="Lab", kind="venv", path="/opt/lab")
SLICE = "a100_1g.10gb"


def cluster(used: int = 5, **more: Any) -> ClusterSnapshot:
    """Two T4s in four shards each, of which ``used`` are in use, seven MIG slices, and MPS."""
    shards = GpuPool(type="shard.t4", count=8, used=used, each=4)
    held = GpuPool(type="t4", count=2, used=2, used_indexes=(0, 1), shared_indexes=(0, 1))
    quarters = GpuPool(type="mps.v100", count=16, used=0, each=4)
    usual = {"state": "IDLE", "address": "", "cpus": 64, "memory": 64_000}
    nodes = (
        Node(name="gpu01", gpus=(held,), shares=(shards,), **usual),
        Node(name="gpu02", gpus=(GpuPool(type=SLICE, count=7, used=2),), **usual),
        Node(name="gpu03", gpus=(GpuPool(type="v100", count=4),), shares=(quarters,), **usual),
    )
    names = tuple(node.name for node in nodes)
    return ClusterSnapshot(
        taken_at=time.time(),
        nodes={node.name: node for node in nodes},
        partitions={"gpu": Partition(name="gpu", default=True, nodes=names)},
        **more,
    )


def judge(
    options: dict[str, Any],
    snapshot: ClusterSnapshot | None = None,
    environment: Environment = LAB,
    rows: tuple[Association, ...] | None = None,
) -> Resources:
    asked = Asked.parse(options)
    known = {environment.name: environment}
    return decide(asked, ADA, known, snapshot or cluster(), rows, Resources()).resources


def refusal(*arguments: Any, **words: Any) -> str:
    with pytest.raises(NotAllowed) as caught:
        judge(*arguments, **words)
    return caught.value.message


@pytest.mark.parametrize(
    ("gpu_type", "share", "part"),
    [
        ("shard.t4", Share("shard", "t4"), None),
        ("shard", Share("shard", ""), None),
        ("mps.v100", Share("mps", "v100"), None),
        ("shard.nvidia_a100_80gb", Share("shard", "nvidia_a100_80gb"), None),
        ("sharding", None, None),
        ("v100", None, None),
        ("1g.5gb", None, Slice(1, 5)),
        ("a100_1g.10gb", None, Slice(1, 10)),
        ("nvidia_h100_80gb_hbm3_3g.40gb", None, Slice(3, 40)),
        ("a100_1g.10gb.me", None, Slice(1, 10)),
        ("a100-sxm4-80gb", None, None),
        ("", None, None),
        (None, None, None),
    ],
)
def test_names(gpu_type: str | None, share: Share | None, part: Slice | None) -> None:
    assert (share_of(gpu_type), slice_of(gpu_type)) == (share, part)
    if share:
        assert share.name == gpu_type


def test_words_for_pages() -> None:
    assert type_title("shard.t4") == "shard of t4" and type_title("shard.t4", "T4") == "shard of T4"
    assert type_title("mps.v100") == "MPS quarter of v100"
    assert type_title("v100") == "v100"
    assert part_words(SLICE) == "MIG slice, 1/7 of a GPU, 10 GB"
    assert part_words("shard.t4", 4) == "1/4 of a GPU, shared with other jobs"
    assert part_words("v100") == part_words("t4", 4) == ""


@pytest.mark.parametrize(
    ("gpu_type", "number", "gres"),
    [
        ("shard.t4", 2, "shard:t4:2"),
        ("shard", 3, "shard:3"),
        ("mps.v100", 2, "mps:v100:50"),  # of Slurm's units, half of a GPU
        (SLICE, 1, f"gpu:{SLICE}:1"),
        ("v100", 2, "gpu:v100:2"),
        (None, 2, "gpu:2"),
    ],
)
def test_what_sbatch_is_asked_for(gpu_type: str | None, number: int, gres: str) -> None:
    pairs = sbatch_pairs(Resources(gpus=number, gpu_type=gpu_type))
    assert f"--gres={gres}" in pairs


def test_each_part_is_counted_as_its_own_type() -> None:
    supply = availability(cluster(), ["gpu"])
    assert {name: (gpu.free, gpu.total, gpu.per_node) for name, gpu in supply.gpus.items()} == {
        "t4": (0, 2, 2),  # both have shards in use
        "v100": (4, 4, 4),
        SLICE: (5, 7, 7),
        "shard.t4": (3, 8, 4),  # a job's are of one GPU
        "mps.v100": (16, 16, 4),
    }
    assert {name: gpu.each for name, gpu in supply.gpus.items() if gpu.each} == {
        "shard.t4": 4,
        "mps.v100": 4,
    }
    assert supply.gpus["shard.t4"].free_on_one_node == 3
    # Shares are no GPUs of the partition.
    assert (supply.partitions["gpu"].gpus, supply.partitions["gpu"].gpus_free) == (13, 9)
    there = OF["gpu_type"].there
    assert there is not None
    assert set(there([*cluster().nodes.values()])) == set(supply.gpus)


def test_shares_are_chosen_and_never_given_unasked() -> None:
    chosen = judge({"environment": "lab", "gpus": 2, "gpu_type": "shard.t4"})
    assert (chosen.gpus, chosen.gpu_type, chosen.partition) == (2, "shard.t4", "gpu")
    assert judge({"environment": "lab", "gpus": 1}).gpu_type is None
    narrow = LAB.altered(gpu_types=("shard.t4", "t4", "v100"))
    assert judge({"environment": "lab", "gpus": 1}, environment=narrow).gpu_type == "v100"
    only = LAB.altered(gpu_types=("v100",))
    refused = refusal({"environment": "lab", "gpus": 1, "gpu_type": "shard.t4"}, environment=only)
    assert refused == "'Lab' runs only on these GPUs: v100."


def test_no_more_shares_than_one_gpu_has() -> None:
    ask = {"environment": "lab", "gpus": 5, "gpu_type": "shard.t4"}
    refused = "The partition 'gpu' has at most 4 shard.t4 shares on one node."
    assert refused in refusal(ask)
    assert judge(ask | {"gpus": 4}).gpus == 4
    none = refusal(ask | {"gpu_type": "shard.v100"})
    assert "The partition 'gpu' has no shard.v100 shares. It has:" in none and "shard.t4" in none


def test_a_share_is_at_most_one_gpu_for_the_environment() -> None:
    ask = {"environment": "lab", "gpus": 3, "gpu_type": "shard.t4"}
    assert judge(ask, environment=LAB.altered(max_gpus=1)).gpus == 3
    assert "at most 0 GPUs" in refusal(ask, environment=LAB.altered(max_gpus=0))


def test_limits_of_shares_are_those_of_their_own_tres() -> None:
    most = {"job": {"gres/gpu": 0, "gres/shard": 2, "gres/mps": 25}}
    rows = (Association(user="ada", account="lab", qos=("normal",), is_default_account=True),)
    told = cluster(qos={"normal": Qos(name="normal", max_tres=most)})
    ask = {"environment": "lab", "gpus": 2, "gpu_type": "shard.t4"}
    assert judge(ask, told, rows=rows).gpus == 2
    words = refusal(ask | {"gpus": 3}, told, rows=rows)
    assert words == "The QOS 'normal' allows at most 2 shards in one session."
    words = refusal({"environment": "lab", "gpus": 2, "gpu_type": "mps.v100"}, told, rows=rows)
    assert words == "The QOS 'normal' allows at most 25 MPS units in one session."


@pytest.mark.parametrize(("used", "gpus", "room"), [(5, 3, True), (6, 3, False), (8, 1, False)])
def test_free_shares_start_at_once(used: int, gpus: int, room: bool) -> None:
    wanted = Resources(gpus=gpus, gpu_type="shard.t4", partition="gpu")
    assert room_now(wanted, cluster(used), time.time()) is room
    # The GPU behind them is in use: no whole one.
    assert not room_now(Resources(gpus=1, gpu_type="t4", partition="gpu"), cluster(used), 0)


def test_each_part_is_tested_by_itself() -> None:
    told = cluster()
    assert gpu_types_of(told) == sorted(["t4", "v100", SLICE, "shard.t4", "mps.v100"])
    assert types_to_test(LAB, told) == ["", *gpu_types_of(told)]
    assert types_to_test(LAB.altered(gpu_types=("v100",)), told) == ["", "v100"]
    assert usable_nodes(told, "shard.t4") and not usable_nodes(told, "shard.v100")
