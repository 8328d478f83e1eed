"""What a Hub keeps of sessions that are over: the same people start and stop again and again."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Sequence

from .cluster import PEOPLE, Cluster, NotMeasured
from .hub import BenchHub, bench_hub
from .report import Row

WHO = PEOPLE[:50]
SECONDS = float(os.environ.get("BENCH_SOAK", "660"))  # of each Hub; an hour shows more
_WARM = 330.0  # seconds; squeue shows jobs for MinJobAge (300 s), and the watcher what it shows
_LEAST = 4  # rounds after that
_SETTLE = 2.0  # seconds after a round, for what the Hub does behind its answers
_PATIENCE = 120.0  # seconds of one round


async def _round(hub: BenchHub) -> None:
    """Have everyone start a session and stop it. Raises NotMeasured where one does not start."""
    answers = await asyncio.gather(*(hub.launch(name) for name in WHO))
    for answer in answers:
        if answer.status != 201:
            raise NotMeasured(f"a session did not start: {answer.status} {answer.text[:200]}")
    for name in WHO:
        await asyncio.to_thread(hub.stop_server, name)
    until = time.monotonic() + _PATIENCE
    while await asyncio.to_thread(hub.servers):
        if time.monotonic() > until:
            raise NotMeasured(f"sessions do not stop: {hub.last_words()}")
        await asyncio.sleep(0.5)
    await asyncio.sleep(_SETTLE)


def _growth(cluster: Cluster, kind: str) -> tuple[float, int]:
    """KiB that a session leaves in the memory of a Hub with this spawner, and of how many."""
    number, rounds = 0, list[tuple[float, int, float]]()  # seconds, sessions, MiB
    with bench_hub(cluster, kind, WHO) as hub:
        began = time.monotonic()
        while (took := time.monotonic() - began) < SECONDS or len(_warm(rounds)) < _LEAST:
            asyncio.run(_round(hub))
            number += len(WHO)
            rounds.append((took, number, hub.memory_mib()))
    warm = _warm(rounds)
    fit = statistics.linear_regression([row[1] for row in warm], [row[2] for row in warm])
    line = " ".join(f"{size:.0f}" for _, _, size in rounds)
    print(f"  {kind}: {number} sessions, MiB after each round: {line}", flush=True)
    return fit.slope * 1024, number


def _warm(rounds: Sequence[tuple[float, int, float]]) -> list[tuple[float, int, float]]:
    """The rounds that began after _WARM."""
    return [row for row in rounds if row[0] > _WARM]


def measure(cluster: Cluster) -> list[Row]:
    """The row of the memory that ended sessions leave."""
    stock, _ = _growth(cluster, "stock")
    ours, number = _growth(cluster, "ours")
    return [
        Row(
            f"soak of {number} sessions: the Hub's growth a session",
            ours,
            "KiB",
            "batchspawner 1.3.0",
            stock,
            None,
            "at most 5 KiB more than peer",
            ours <= stock + 5,
        )
    ]
