"""A class of two hundred without a single patch of JupyterHub at a time: benefit of each."""

from __future__ import annotations

import statistics

from .class_start import ROUNDS, percentile, start_all
from .cluster import STUDENTS, Cluster
from .report import Row
from .startup import Run, told

WHAT = f"A class of {len(STUDENTS)} without the patch"
# Patches of spawners/hub_patches/, a file each; _WITH adds those that depend on one.
NAMES = ("spawn-commits", "spawn-queue", "early-response", "database-ping")
_WITH = {"early-response": "early-response stop-context"}
_NONE = ""  # all patches


def measure(cluster: Cluster) -> list[Row]:
    """Return the rows, medians of the rounds, with all patches and, as the peer, without one.
    People who do not get a session count as failed."""
    results: dict[str, list[tuple[Run, float]]] = {name: [] for name in (_NONE, *NAMES)}
    for _ in range(ROUNDS):
        for name, runs in results.items():
            run, waits = start_all(cluster, BENCH_WITHOUT=_WITH.get(name, name))
            told(f"without {name}" if name else "all patches", run)
            runs.append((run, percentile(waits)))
            print(f"  pages {runs[-1][1]:.2f} s", flush=True)
    return [row for name in NAMES for row in _rows(name, results[_NONE], results[name])]


def _rows(name: str, runs: list[tuple[Run, float]], without: list[tuple[Run, float]]) -> list[Row]:
    what, peer = f"{WHAT} {name}", f"without {name}"
    last, last_without = (
        statistics.median(max(run.seconds, default=float("nan")) for run, _ in some)
        for some in (runs, without)
    )
    cpu, cpu_without = (statistics.median(run.cpu for run, _ in some) for some in (runs, without))
    late, late_without = (statistics.median(wait for _, wait in some) for some in (runs, without))
    failed, failed_without = (sum(run.failed for run, _ in some) for some in (runs, without))
    return [
        Row(f"{what}: all are ready", last, "s", peer, last_without),
        Row(f"{what}: CPU of the Hub and its commands", cpu, "CPU-s", peer, cpu_without),
        Row(f"{what}: logins and pages meanwhile, 95th percentile", late, "s", peer, late_without),
        Row(f"{what}: failed", failed, "sessions", peer, failed_without),
    ]
