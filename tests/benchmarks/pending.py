"""Sessions that wait in Slurm's queue: the cost of watching them."""

from __future__ import annotations

import asyncio
import time

from .cluster import PARTITION, PEOPLE, Cluster, wait_for
from .hub import BenchHub, bench_hub
from .report import Row

WAITING = PEOPLE[:60]
BLOCKER = PEOPLE[-1]
SETTLE = 10.0  # seconds, after the launches


async def _watch(cluster: Cluster, hub: BenchHub, seconds: float) -> tuple[float, float]:
    """Return the requests to slurmctld per second, and the share of a core."""
    tasks = [asyncio.create_task(hub.launch(name)) for name in WAITING]
    try:
        await asyncio.to_thread(
            wait_for, "60 waiting jobs", lambda: cluster.jobs("PD") == len(WAITING), 90, 1
        )
        await asyncio.sleep(SETTLE)
        began, cpu = time.monotonic(), hub.cpu_seconds()
        requests = await asyncio.to_thread(_requests, cluster)
        await asyncio.sleep(seconds)
        took = time.monotonic() - began
        cpu = hub.cpu_seconds() - cpu
        requests = await asyncio.to_thread(_requests, cluster) - requests
        return requests / took, cpu / took
    finally:
        for task in tasks:
            task.cancel()


def _requests(cluster: Cluster) -> int:
    """Count the requests of the Hub's account and of the people, without nodes and this program."""
    return cluster.requests_of("portal", *WAITING)


def _run(cluster: Cluster, kind: str, seconds: float) -> tuple[float, float]:
    with bench_hub(cluster, kind, WAITING) as hub:
        _block(cluster)
        return asyncio.run(_watch(cluster, hub, seconds))


def _block(cluster: Cluster) -> None:
    """Submit a job that takes all nodes, so that all others wait."""
    where = [f"--partition={PARTITION}", "--nodes=8", "--exclusive", "--output=/dev/null"]
    cluster.running.run(["sbatch", *where, "--wrap=sleep 1200"], BLOCKER)
    wait_for("the job that takes all nodes", lambda: cluster.jobs("R") == 1, 30)


def measure(cluster: Cluster) -> list[Row]:
    """Return the rows of queries per second and of CPU."""
    stock = _run(cluster, "stock", 20)
    ours = _run(cluster, "ours", 60)
    what, peer = f"{len(WAITING)} pending sessions", "batchspawner 1.3.0"
    return [
        Row(
            f"{what}: requests to slurmctld",
            ours[0],
            "per s",
            peer,
            stock[0],
            None,
            "at most 1",
            round(ours[0], 2) <= 1,
        ),
        Row(
            f"{what}: CPU of the Hub and its commands",
            100 * ours[1],
            "% of a core",
            peer,
            100 * stock[1],
            None,
            "under 5",
            ours[1] < 0.05,
        ),
    ]
