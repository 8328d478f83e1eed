"""What benchmarks measured in an environment, by GPU type, number and precision. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from portal.models.catalog.catalog import Measured, Measurement


def measured(measurements: Iterable[Measurement]) -> tuple[Measured, ...]:
    """One row for each type and number of GPUs, precision and benchmark: CPUs first, then types
    by name, fewer GPUs before more."""
    runs: dict[tuple[str, str, int, str, bool], list[Measurement]] = defaultdict(list)
    for one in measurements:
        key = (one.benchmark, one.gpu_type, one.gpus, one.precision, one.simulated)
        runs[key].append(one)
    return tuple(
        Measured(
            benchmark=benchmark,
            gpu_type=gpu_type,
            gpus=gpus,
            precision=precision,
            simulated=simulated,
            images_per_second=median(one.images_per_second for one in found),
            best=max(one.images_per_second for one in found),
            runs=len(found),
            at=max(one.at for one in found),
        )
        for (benchmark, gpu_type, gpus, precision, simulated), found in sorted(runs.items())
    )
