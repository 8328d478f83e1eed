"""Shares of GPUs (gres/shard, gres/mps) as Slurm reports them: their number, and the used ones."""

from __future__ import annotations

import pytest
from clusters import job, node

from portal.models.cluster.cluster import GpuPool, JobState
from portal.slurm import parse
from portal.slurm.parse.gres import tres_shares
from portal.slurm.watch.shares import with_counted_shares


@pytest.mark.parametrize(
    ("gres", "used", "expected"),
    [
        # 22.05: GPUs of which shares are in use, not the number of shares.
        ("gpu:t4:2,shard:t4:8", "gpu:t4:0(IDX:N/A),shard:t4:1(IDX:0)", [("shard.t4", 8, 4, 4, 1)]),
        ("gpu:t4:2,shard:t4:8", "gpu:t4:0(IDX:N/A),shard:0", [("shard.t4", 8, 0, 4, 0)]),
        # A GPU in use as a whole has no free shares.
        ("gpu:t4:2,shard:t4:8", "gpu:t4:1(IDX:1),shard:t4:1(IDX:0)", [("shard.t4", 8, 8, 4, 1)]),
        ("gpu:t4:2,shard:t4:8", "gpu:t4:1(IDX:1),shard:0", [("shard.t4", 8, 4, 4, 0)]),
        # Newer: the shares of each GPU.
        (
            "gpu:t4:2,shard:t4:8",
            "gpu:t4:0(IDX:N/A),shard:t4:3(2/4,1/4)",
            [("shard.t4", 8, 3, 4, 0)],
        ),
        ("gpu:t4:2,shard:t4:8", "gpu:t4:1(IDX:1),shard:t4:2(2/4,-/4)", [("shard.t4", 8, 6, 4, 0)]),
        ("gpu:2,shard:8", "gpu:0,shard:5", [("shard", 8, 5, 4, 0)]),
        # MPS in quarters of the 100 units of each GPU; a part of a quarter is one.
        (
            "gpu:t4:2,mps:t4:200",
            "gpu:t4:0(IDX:N/A),mps:t4:60(60/100,0/100)",
            [("mps.t4", 8, 3, 4, 0)],
        ),
        ("gpu:t4:2,mps:t4:200", "gpu:t4:0(IDX:N/A),mps:t4:1(IDX:1)", [("mps.t4", 8, 4, 4, 1)]),
        # Of one of two types, or of both.
        (
            "gpu:t4:2,gpu:a100:2,shard:a100:14",
            "gpu:t4:2(IDX:0-1),gpu:a100:0(IDX:N/A),shard:a100:2(2/7,0/7)",
            [("shard.a100", 14, 2, 7, 0)],
        ),
        ("gpu:t4:2,gpu:a100:2,shard:16", "gpu:t4:0,gpu:a100:1,shard:0", [("shard", 16, 4, 4, 0)]),
        # Nothing to share, or fewer shares than GPUs.
        ("gpu:1g.10gb:7", "gpu:1g.10gb:2(IDX:0-1)", []),
        ("gpu:t4:4,shard:t4:2", "gpu:t4:0", []),
        ("shard:8", "shard:0", []),
        ("(null)", "gpu:0,shard:0", []),
    ],
)
def test_shares_of_a_node(
    gres: str, used: str, expected: list[tuple[str, int, int, int, int]]
) -> None:
    pools = parse.shares(gres, used)
    found = [(pool.type, pool.count, pool.used, pool.each, pool.uncounted) for pool in pools]
    assert found == expected


def test_slices_are_gpus_of_their_own() -> None:
    (pool,) = parse.pools("gpu:a100_1g.10gb:7(S:0)", "gpu:a100_1g.10gb:2(IDX:0-1)")
    assert (pool.type, pool.count, pool.used, pool.each) == ("a100_1g.10gb", 7, 2, 0)


def test_shares_of_a_job() -> None:
    text = "cpu=1,mem=1G,gres/shard=2,gres/shard:t4=2"
    assert tres_shares(text) == {"shard": 2}
    assert tres_shares("cpu=1,gres/mps=50,gres/gpu=0") == {"mps": 50}
    assert tres_shares("cpu=1,gres/gpu=2") == {} == tres_shares("N/A")


def shares(used: int = 8, uncounted: int = 2, name: str = "shard.t4") -> GpuPool:
    return GpuPool(type=name, count=8, used=used, each=4, uncounted=uncounted)


def test_jobs_say_how_many_shares_are_used() -> None:
    nodes = {"gpu01": node("gpu01", shares=(shares(),)), "gpu02": node("gpu02")}
    held = {"nodes": ("gpu01",), "shares": {"shard": 2}}
    jobs = {
        "1": job("1", **held),
        "2": job("2", **held),
        "3": job("3", **held | {"nodes": ("gpu02",)}),
        "4": job("4", **held, state=JobState.PENDING),
        "5": job("5", nodes=("gpu01",), shares={"mps": 100}),
    }
    changed = with_counted_shares(nodes, jobs)
    (pool,) = changed["gpu01"].shares
    assert (pool.used, pool.uncounted) == (4, 0)
    assert changed["gpu02"] is nodes["gpu02"]
    # One GPU is held as a whole, of the other two shares are in use.
    nodes["gpu01"] = node("gpu01", shares=(shares(used=8, uncounted=1),))
    (pool,) = with_counted_shares(nodes, {"1": jobs["1"]})["gpu01"].shares
    assert pool.used == 6


def test_what_no_job_says_counts_as_used() -> None:
    jobs = {"1": job("1", nodes=("gpu01",), shares={"shard": 1})}
    nodes = {"gpu01": node("gpu01", shares=(shares(),))}
    # Shares of two GPUs are in use, and only one share is known.
    assert with_counted_shares(nodes, jobs)["gpu01"].shares == (shares(),)
    both = (shares(4, 1), shares(4, 1, "shard.a100"))
    nodes = {"gpu01": node("gpu01", shares=both)}
    assert with_counted_shares(nodes, jobs)["gpu01"].shares == both  # of which type, is not known


def test_an_answer_without_doubt_stays_the_same_object() -> None:
    nodes = {"gpu01": node("gpu01", shares=(shares(3, 0),))}
    assert with_counted_shares(nodes, {}) is nodes
