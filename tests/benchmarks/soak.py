"""Memory that ended sessions leave in a Hub: the same people start and stop repeatedly."""

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
_WARM = 330.0  # seconds; squeue, and so the watcher, lists jobs for MinJobAge (300 s)
_LEAST = 4  # rounds after that
_SETTLE = 2.0  # seconds after a round, for the Hub's work in the background
_PATIENCE = 120.0  # seconds of a round


async def _round(hub: BenchHub) -> None:
    """Have everyone start and stop a session. Raises NotMeasured if a session does not start."""
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
    """Return the KiB per session that stay in a Hub with this spawner, and the sessions."""
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
    """Return the rounds that began after _WARM."""
    return [row for row in rounds if row[0] > _WARM]


def measure(cluster: Cluster) -> list[Row]:
    """Return the row of the memory that ended sessions leave."""
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
