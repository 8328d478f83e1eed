"""Doctor's checks of Slurm, on what slurmctld says."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portal.doctor.checks import slurm
from portal.models.cluster.cluster import ClusterSnapshot, GpuPool, Node, Partition
from portal.slurm.commands.run import Output

PRIVATE = (Path(__file__).parents[2] / "slurm_outputs/22.05/private-configuration.txt").read_text()


def site(tres: str, level: str = "Operator", *types: str) -> Any:
    """A site whose Slurm counts ``tres`` and has one node of each of ``types``."""

    async def run(argv: list[str], **how: Any) -> Output:
        if "configuration" in argv:
            return Output(PRIVATE, "", 0)
        if argv[0] == "sacctmgr":
            return Output(f"portal|{level}\n", "", 0)
        said = (
            f"AccountingStorageTRES = cpu,mem,billing,{tres}\nSlurmUser = slurm(64030)\n"
            "AccountingStorageType = accounting_storage/slurmdbd\n"
        )
        return Output(said, "", 0)

    async def snapshot() -> ClusterSnapshot:
        nodes = {
            kind: Node(name=kind, address=kind, state="IDLE", cpus=4, memory=4096,
                       gpus=(GpuPool(type=kind, count=2),))
            for kind in types
        }  # fmt: skip
        return ClusterSnapshot(taken_at=0, nodes=nodes)

    return SimpleNamespace(
        account="portal",
        is_root=False,
        runner=SimpleNamespace(run=run),
        cluster=SimpleNamespace(snapshot=snapshot),
    )


@pytest.mark.parametrize("types", ["gres/gpu:v100,gres/gpu:t4", "gres/gpu:V100,gres/gpu:T4"])
async def test_gpus_are_counted_by_type(types: str) -> None:
    found = await slurm.gpus.function(site(f"gres/gpu,{types}", "Operator", "v100", "t4"))
    assert found.level.name.lower() == "ok", found
    assert "2 t4, 2 v100" in found.found


@pytest.mark.parametrize(
    ("tres", "words"),
    [
        ("gres/gpu", "gres/gpu:t4, gres/gpu:v100: not tracked by type"),
        ("gres/gpu,gres/gpu:v100", "gres/gpu:t4: not tracked by type"),
        ("gres/gpu:v100,gres/gpu:t4", "does not track GPUs"),
        ("license/matlab", "does not track GPUs"),
    ],
)
async def test_gpus_that_are_not_counted_by_type_are_named(tres: str, words: str) -> None:
    found = await slurm.gpus.function(site(tres, "Operator", "v100", "t4"))
    assert (found.level.name.lower(), words in found.found) == ("warning", True), found
    assert "AccountingStorageTRES=gres/gpu,gres/gpu:t4,gres/gpu:v100" in found.mend


@pytest.mark.parametrize(
    ("tres", "level"),
    [("gres/gpu,gres/gpu:t4", "warning"), ("gres/gpu,gres/gpu:t4,gres/shard", "ok")],
)
async def test_shares_of_gpus_are_counted_too(tres: str, level: str) -> None:
    checked = site(tres, "Operator", "t4")
    snapshot = await checked.cluster.snapshot()
    shares = (GpuPool(type="shard.t4", count=8, each=4),)
    snapshot.nodes["t4"] = snapshot.nodes["t4"].altered(shares=shares)

    async def told() -> ClusterSnapshot:
        return snapshot

    checked.cluster.snapshot = told
    found = await slurm.gpus.function(checked)
    assert found.level.name.lower() == level, found
    assert ("gres/shard: not tracked" in found.found) == (level == "warning")
    if level == "warning":
        assert found.mend == "Add gres/shard to AccountingStorageTRES in slurm.conf."


async def test_an_administrator_may_drain_nodes_and_the_portal_uses_that() -> None:
    found = await slurm.rights.function(site("gres/gpu", "Administrator"))
    assert "the portal's admins can drain nodes" in found.found
    assert "does not use" not in found.found
    assert "adminlevel=Operator" in found.mend


async def test_a_slurmdbd_that_hides_people_from_the_portal_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("portal.slurm.watch.private_data.own_account", lambda: (6100, "portal"))
    found = await slurm.rights.function(site("gres/gpu", "None"))
    assert (found.level.name.lower(), "PrivateData=accounts,users" in found.found) == (
        "failure",
        True,
    ), found
    assert "sacctmgr modify user portal set adminlevel=Operator" in found.mend
    found = await slurm.rights.function(site("gres/gpu", "Operator"))
    assert found.level.name.lower() == "ok"


async def test_a_node_that_a_killed_slurmctld_has_drained_is_named() -> None:
    where = site("gres/gpu", "Operator")
    nodes = {
        name: Node(name=name, address=name, state=state, reason=reason)
        for name, state, reason in (
            ("gpu01", "IDLE+DRAIN", "Duplicate jobid"),
            ("gpu02", "IDLE+DRAIN", "a fan is broken"),
            ("gpu03", "IDLE", "Duplicate jobid"),
        )
    }

    async def snapshot() -> ClusterSnapshot:
        return ClusterSnapshot(taken_at=0, nodes=nodes, partitions={"gpu": Partition(name="gpu")})

    where.cluster.snapshot = snapshot
    found = await slurm.answers.function(where)
    assert "node gpu01 is drained with 'Duplicate jobid'" in found.found
    assert "scontrol update nodename=gpu01 state=resume" in found.mend
    assert "gpu02" not in found.found and "gpu03" not in found.found
