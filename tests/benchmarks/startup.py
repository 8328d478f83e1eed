"""A hundred sessions at once: four runs in turn, the same stub in all of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from .cluster import HERE, PARTITION, PEOPLE, Cluster, NotMeasured, wait_for
from .hub import BenchHub, bench_hub
from .report import Row

ROUNDS = 3
PATIENCE = 120.0  # seconds for a run


@dataclass
class Run:
    """Run: seconds to ready of each session that became ready, and the cost."""

    seconds: list[float]
    failed: int
    refused: int  # with 429
    cpu: float = 0.0  # seconds, of the Hub and its commands
    memory: float = 0.0  # MiB, of the Hub with all of them running
    words: str = ""

    @property
    def median(self) -> float:
        """Median of the seconds."""
        return statistics.median(self.seconds) if self.seconds else float("nan")


def plain(cluster: Cluster, people: Sequence[str] = PEOPLE, partition: str = PARTITION) -> Run:
    """Submit the stub as plain jobs of ``sbatch`` and wait until each has posted."""
    cluster.posts()
    args = [str(cluster.stub), cluster.responder_url, partition, *people]
    try:
        done = cluster.running.run([sys.executable, str(HERE / "plain.py"), *args], timeout=120)
        report = json.loads(done.stdout)
        wanted = len(people) - report["refused"]
        posted: dict[str, tuple[float, str]] = {}

        def all_there() -> bool:
            posted.update(cluster.posts())
            return len(posted) >= wanted

        wait_for("the plain jobs", all_there, PATIENCE, 0.5)
    finally:
        cluster.clear()
    return Run([when - report["began"] for when, _ in posted.values()], report["refused"], 0)


def through_hub(
    cluster: Cluster,
    kind: str,
    people: Sequence[str] = PEOPLE,
    partition: str = PARTITION,
    beside: Callable[[BenchHub], AbstractContextManager[object]] = contextlib.nullcontext,
    **settings: str,
) -> Run:
    """Launch everyone's session at once, through a Hub with the spawner ``kind``. ``beside``: a
    context for other load on the Hub meanwhile."""
    with bench_hub(cluster, kind, people, partition, **settings) as hub, beside(hub):
        run = asyncio.run(_launch_all(hub, people))
        run.memory = hub.memory_mib()
        return run


async def _launch_all(hub: BenchHub, people: Sequence[str]) -> Run:
    before = hub.cpu_seconds()
    tasks = [asyncio.create_task(hub.launch(name)) for name in people]
    done, late = await asyncio.wait(tasks, timeout=PATIENCE)
    cpu = hub.cpu_seconds() - before
    for task in late:
        task.cancel()
    answers = [task.result() for task in done]
    ready = [answer.seconds for answer in answers if answer.status == 201]
    wrong = Counter(
        f"{answer.status} {answer.text[:200]}" for answer in answers if answer.status != 201
    )
    refused = sum(answer.status == 429 for answer in answers)
    words = "; ".join(f"{count} x {text}" for text, count in wrong.most_common(3))
    return Run(ready, len(tasks) - len(ready), refused, cpu, words=words)


def middle(runs: list[Run]) -> Run:
    """Return the run with the median time, with the failures of all runs."""
    chosen = sorted(runs, key=lambda run: run.median)[len(runs) // 2]
    return replace(
        chosen,
        failed=sum(run.failed for run in runs),
        refused=sum(run.refused for run in runs),
        cpu=statistics.median(run.cpu for run in runs),
        memory=statistics.median(run.memory for run in runs),
    )


def told(kind: str, run: Run) -> Run:
    print(
        f"  {kind}: median {run.median:.1f} s, last {max(run.seconds, default=0):.1f} s, "
        f"{run.cpu:.1f} CPU-s, {run.memory:.0f} MiB, {run.failed} failed {run.words}",
        flush=True,
    )
    return run


def measure(cluster: Cluster) -> list[Row]:
    """Return the rows of the hundred sessions and of the Hub's memory with them."""
    noops, plains, stocks, portals = [], [], [], []
    for _ in range(ROUNDS):
        noops.append(told("no-op spawner", through_hub(cluster, "noop")))
        plains.append(told("plain sbatch", plain(cluster)))
        stocks.append(told("stock batchspawner", through_hub(cluster, "stock")))
        portals.append(told("portal", through_hub(cluster, "ours")))
    noop, slurm, stock, ours = map(middle, (noops, plains, stocks, portals))
    if not ours.seconds or not stock.seconds:
        raise NotMeasured(f"no session became ready: {ours.words or stock.words}")
    floor = noop.median + slurm.median
    peer = "batchspawner 1.3.0"
    what = f"{len(PEOPLE)} sessions at once"
    fast = ours.median <= 1.2 * floor and 3 * ours.median <= stock.median
    return [
        Row(
            f"{what}: median time to ready",
            ours.median,
            "s",
            peer,
            stock.median,
            floor,
            "at most 1.2 x floor (no-op spawner + plain sbatch), 3 x faster than peer",
            fast,
        ),
        Row(
            f"{what}: the last one is ready",
            max(ours.seconds),
            "s",
            peer,
            max(stock.seconds),
            max(noop.seconds) + max(slurm.seconds),
        ),
        Row(
            f"{what}: CPU of the Hub and its commands",
            ours.cpu,
            "CPU-s",
            peer,
            stock.cpu,
            noop.cpu,
            "at most 12",
            ours.cpu <= 12,
        ),
        Row(
            f"{what}: failed or refused (429)",
            ours.failed,
            "sessions",
            peer,
            stock.failed,
            0,
            "0",
            ours.failed == 0,
        ),
        Row(
            f"Memory of the Hub with {len(PEOPLE)} running sessions",
            ours.memory,
            "MiB",
            peer,
            stock.memory,
            noop.memory,
        ),
    ]
