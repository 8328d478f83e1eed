"""Partitions: what each of slurm.conf's rules means for a request, and which one is chosen."""

from __future__ import annotations

import time
from typing import Any

import pytest

from portal.errors import NotAllowed
from portal.launch.limits.limits import partition_limits
from portal.launch.partitions import allowed_partitions, choose_partition
from portal.launch.policy import decide
from portal.launch.request import Asked
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import (
    Association,
    ClusterSnapshot,
    GpuPool,
    Job,
    JobState,
    Node,
    Partition,
    Qos,
    Reservation,
)
from portal.models.person import Person
from portal.models.session.resources import Resources

ADA = Person(name="ada", groups=("bio",))
ROWS = (
    Association(user="ada", account="research", qos=("normal",), is_default_account=True),
    Association(user="ada", account="teaching", qos=("normal",)),
)
LAB = Environment(name="lab", title="Lab", kind="venv", path="/opt/lab")
PLAIN = Resources(cpus=2, memory="4G", time="2:00:00")
NODES = {
    "cpu01": Node(name="cpu01", address="a", state="IDLE", cpus=16, sockets=1, memory=64000),
    "cpu02": Node(name="cpu02", address="a", state="IDLE", cpus=16, memory=64000),
    "mem01": Node(name="mem01", address="a", state="IDLE", cpus=4, memory=1_000_000),
    "gpu01": Node(
        name="gpu01",
        address="a",
        state="IDLE",
        cpus=16,
        memory=64000,
        gpus=(GpuPool(type="v100", count=4),),
    ),
}


def cluster(*partitions: Partition, **changes: Any) -> ClusterSnapshot:
    known = {partition.name: partition for partition in partitions}
    given = {"taken_at": time.time(), "nodes": NODES, "submit_host": "hub", **changes}
    return ClusterSnapshot(partitions=known, **given)


def part(name: str, *nodes: str, **rules: Any) -> Partition:
    return Partition(name=name, nodes=nodes or ("cpu01",), **rules)


def chosen(snapshot: ClusterSnapshot, resources: Resources = PLAIN, **changes: Any) -> str | None:
    given = {"person": ADA, "associations": ROWS, **changes}
    return choose_partition(resources, snapshot=snapshot, **given)


# Each rule makes a partition refuse a plain session; its name sorts first. What Slurm says of it
# is in the sentence for those who name the partition.
TINY = Qos(name="tiny", max_tres={"job": {"cpu": 1}})
RULES: dict[str, tuple[dict[str, Any], str]] = {
    "devel": ({"max_time": 1800}, "allows a time limit of at most 30 min"),
    "root": ({"root_only": True}, r"takes only jobs of root \(RootOnly\)"),
    "accounts": ({"allow_accounts": ("boss",)}, "allows only the accounts boss"),
    "default account": ({"allow_accounts": ("teaching",)}, "does not allow the account 'research'"),
    "denied": ({"deny_accounts": ("research", "teaching")}, "denies the accounts research"),
    "denied default": ({"deny_accounts": ("research",)}, "does not allow the account 'research'"),
    "qos": ({"allow_qos": ("gold",)}, "does not allow your QOS"),
    "qos denied": ({"deny_qos": ("normal",)}, "does not allow your QOS"),
    "its qos": ({"qos": "tiny"}, "The QOS 'tiny' allows at most 1 CPU"),
    "groups": ({"allow_groups": ("physics",), "groups_known": True}, "only the groups physics"),
    "hosts": ({"alloc_nodes": ("login1", "login2")}, r"from login1, login2, not from hub"),
    "few nodes": ({"min_nodes": 2, "nodes": ("cpu01", "cpu02")}, "of at least 2 nodes"),
    "no nodes": ({"max_nodes": 0}, "allows at most 0 nodes"),
    "cpus": ({"max_cpus_per_node": 1}, "allows at most 1 CPU on one node"),
    "memory": ({"max_memory_per_node": 2048}, "allows at most 2G of memory on one node"),
    "sockets": ({"max_cpus_per_socket": 1}, "has at most 1 CPU on one such node"),
    "memory of CPUs": ({"max_memory_per_cpu": 100}, "at most 1600M of .* 100M of memory for each"),
    "memory of few CPUs": (
        {"max_memory_per_cpu": 1024, "max_cpus_per_node": 3},
        "allows at most 3G of memory on one such node",
    ),
    "reservation": ({"requires_reservation": True}, "takes only sessions in a reservation"),
    "down": ({"state": "DOWN"}, r"it is closed at the moment \(State=DOWN\)"),
    "drain": ({"state": "DRAIN"}, r"it is closed at the moment \(State=DRAIN\)"),
    "inactive": ({"state": "INACTIVE"}, r"it is closed at the moment \(State=INACTIVE\)"),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_partition_that_refuses_is_not_chosen_and_says_why(rule: str) -> None:
    rules, words = RULES[rule]
    first = Partition(name="aaa", **{"nodes": ("cpu01",), **rules})
    # Neither if it is Slurm's default partition.
    for refusing in (first, first.model_copy(update={"default": True})):
        snapshot = cluster(refusing, part("work", "cpu02"), qos={"tiny": TINY})
        assert chosen(snapshot) == "work"
        asked = Asked.parse({"partition": "aaa"})
        with pytest.raises(NotAllowed, match=words) as caught:
            decide(asked, ADA, {"lab": LAB}, snapshot, ROWS, PLAIN)
        assert "aaa" in caught.value.message or rule == "its qos"


@pytest.mark.parametrize(("asked", "automatic"), [({}, True), ({"partition": "work"}, False)])
def test_a_launch_knows_whether_its_partition_was_named(
    asked: dict[str, str], automatic: bool
) -> None:
    request = decide(Asked.parse(asked), ADA, {"lab": LAB}, cluster(part("work")), ROWS, PLAIN)
    assert (request.resources.partition, request.partition_automatic) == ("work", automatic)


def test_a_partition_of_root_is_roots() -> None:
    rows = (Association(user="root", account="service", is_default_account=True),)
    root = Person(name="root")
    snapshot = cluster(part("a", root_only=True), part("b", "cpu02", no_root_jobs=True))
    assert [p.name for p in allowed_partitions(root, snapshot, rows)] == ["a"]
    assert [p.name for p in allowed_partitions(ADA, snapshot, ROWS)] == ["b"]


@pytest.mark.parametrize(
    "doubt",
    [
        {"allow_groups": ("physics",)},  # of Slurm's machine, perhaps: the directory has it not
        {"hidden": True},
        {"max_memory_per_cpu": 1024},  # Slurm gives it two CPUs more, if it can
    ],
)
def test_what_only_slurm_knows_is_chosen_last_and_never_refused(doubt: dict[str, Any]) -> None:
    doubtful = part("aaa", **doubt)
    assert chosen(cluster(doubtful, part("work", "cpu02"))) == "work"
    # Where none is sure: Slurm's default partition.
    assert chosen(cluster(doubtful, part("bbb", default=True, **doubt))) is None
    assert chosen(cluster(doubtful, part("bbb", default=True, root_only=True))) == "aaa"
    asked, snapshot = Asked.parse({"partition": "aaa"}), cluster(doubtful, part("work", "cpu02"))
    request = decide(asked, ADA, {"lab": LAB}, snapshot, ROWS, PLAIN)
    assert request.resources.partition == "aaa"


def test_without_accounting_accounts_are_slurms_matter() -> None:
    snapshot = cluster(part("aaa", allow_accounts=("boss",)), part("work", "cpu02"))
    assert chosen(snapshot, associations=None) == "work"
    assert chosen(cluster(part("aaa", allow_accounts=("boss",))), associations=None) == "aaa"


def test_now_comes_before_later_and_later_before_never() -> None:
    full = {"cpu01": NODES["cpu01"].model_copy(update={"cpus_allocated": 16})}
    away = {"cpu01": NODES["cpu01"].model_copy(update={"state": "DOWN"})}
    first, work = part("aaa", default=True), part("work", "cpu02")
    assert chosen(cluster(first, work)) == "aaa"
    assert chosen(cluster(first, work, nodes={**NODES, **full})) == "work"
    assert chosen(cluster(first, work, nodes={**NODES, **away})) == "work"
    # A job that waits gets what is free first.
    waits = Job(id="1", partition="aaa", state=JobState.PENDING, reason="Priority", priority=1)
    assert chosen(cluster(first, work, jobs={"1": waits})) == "work"
    # All busy or all down: the default one.
    both = {"cpu02": full["cpu01"], "cpu01": full["cpu01"]}
    assert chosen(cluster(first, work, nodes={**NODES, **both})) == "aaa"
    down = {"cpu01": away["cpu01"], "cpu02": away["cpu01"]}
    assert chosen(cluster(first, work, nodes={**NODES, **down})) == "aaa"


def test_a_session_without_gpus_leaves_the_gpus_to_others() -> None:
    busy = {"cpu01": NODES["cpu01"].model_copy(update={"cpus_allocated": 16})}
    snapshot = cluster(part("gpu", "gpu01", default=True), part("work"), nodes={**NODES, **busy})
    assert chosen(snapshot) == "work"
    assert chosen(snapshot, Resources(gpus=1)) == "gpu"


def test_jobs_that_may_be_pushed_out_go_elsewhere() -> None:
    spare = part("aaa", preemptable=True, priority_tier=1)
    urgent = part("zzz", "cpu01", "cpu02", priority_tier=5, root_only=True, preemptable=True)
    work = part("work", "mem01")
    assert chosen(cluster(spare, urgent, work)) == "work"
    assert chosen(cluster(spare, work)) == "aaa", "nobody can push it out"


@pytest.mark.parametrize("rule", ["whole_nodes", "one_user"])
def test_whole_nodes_are_free_only_if_nobody_is_there(rule: str) -> None:
    shared = {"cpu01": NODES["cpu01"].model_copy(update={"cpus_allocated": 1})}
    snapshot = cluster(part("aaa", **{rule: True}), part("work", "cpu02"))
    assert chosen(snapshot) == "aaa"
    assert chosen(snapshot.model_copy(update={"nodes": {**NODES, **shared}})) == "work"


def test_nodes_must_have_all_of_it_together() -> None:
    both = part("aaa", "cpu01", "mem01")
    large = Resources(cpus=16, memory="200G")
    (objection,) = partition_limits(large, both, cluster(both))
    assert str(objection) == (
        "The partition 'aaa' has no node with all of this together: 16 CPUs, 200G of memory."
    )
    assert not partition_limits(Resources(cpus=4, memory="200G"), both, cluster(both))


def test_if_all_refuse_the_nearest_one_says_what_is_missing() -> None:
    snapshot = cluster(part("aaa", max_time=1800, max_nodes=0), part("gpu", "gpu01"))
    asked = Asked.parse({"gpus": 9})
    with pytest.raises(NotAllowed, match=r"^The partition 'gpu' has at most 4 GPUs on one node"):
        decide(asked, ADA, {"lab": LAB}, snapshot, ROWS, PLAIN)


def test_a_reservation_of_a_group_that_the_directory_lacks_is_left_to_slurm() -> None:
    soon = time.time() + 999
    held = Reservation(name="r", start_time=0, end_time=soon, groups=("local",))
    past = held.model_copy(update={"end_time": 1.0})
    asked = Asked.parse({"reservation": "r"})
    for reservation, known in ((held, True), (past, False)):
        snapshot = cluster(part("work"), reservations={"r": reservation})
        if known:
            assert decide(asked, ADA, {"lab": LAB}, snapshot, ROWS, PLAIN)
        else:
            with pytest.raises(NotAllowed, match="No reservation 'r'"):
                decide(asked, ADA, {"lab": LAB}, snapshot, ROWS, PLAIN)
