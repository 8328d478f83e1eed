"""Benchmark results of an environment, by GPU type, number and precision. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from portal.models.catalog.catalog import Measured, Measurement


def measured(measurements: Iterable[Measurement]) -> tuple[Measured, ...]:
    """Summarise the measurements of each benchmark, GPU type, number of GPUs and precision: CPUs
    first, then types by name, fewer GPUs before more."""
    runs: dict[tuple[str, str, int, str, bool], list[Measurement]] = defaultdict(list)
    for run in measurements:
        key = (run.benchmark, run.gpu_type, run.gpus, run.precision, run.simulated)
        runs[key].append(run)
    return tuple(
        Measured(
            benchmark=benchmark,
            gpu_type=gpu_type,
            gpus=gpus,
            precision=precision,
            simulated=simulated,
            images_per_second=median(run.images_per_second for run in group),
            best=max(run.images_per_second for run in group),
            runs=len(group),
            at=max(run.at for run in group),
        )
        for (benchmark, gpu_type, gpus, precision, simulated), group in sorted(runs.items())
    )
