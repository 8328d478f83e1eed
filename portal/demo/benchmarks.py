"""The demo's results of benchmarks: made up, of two versions of an environment on two types of
GPUs, with one result that fell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Delete, delete

from portal.store import Store
from portal.work.benchmarks.results import BenchmarkResult, falls
from portal.work.benchmarks.tables import (
    BenchmarkRun,
    BenchmarkRunTable,
    benchmark_results,
    benchmark_runs,
)

from .part import DemoPart
from .showcase.past import Past

USER = "admin (example)"  # nobody's name: nobody finds these runs under theirs
ENVIRONMENT = "jupyterlab"
_HOUR = 3600.0


class Measured(NamedTuple):
    """Measurements of two versions: ``values`` by GPU type and its node, in the order of RUNS."""

    benchmark: str
    name: str
    unit: str
    conditions: str
    values: Mapping[tuple[str, str], tuple[float, float]]
    gpus: int = 1


class ExampleRun(NamedTuple):
    """Made up run with a version of the environment, this many hours ago."""

    id: str
    version: int
    ago: float


RUNS = (
    ExampleRun("00be9c4a-51d2-4f7e-8a36-2f1d7c90b311", 1, 50.0),
    ExampleRun("00be9c4a-51d2-4f7e-8a36-2f1d7c90b312", 2, 22.0),
)
_V100, _T4, _DISK = ("v100", "gpu01"), ("t4", "gpu05"), ("", "gpu01")
_NETWORK = "ranks=1, batch=128, pixels=224"
MEASURED = (
    Measured(
        *("throughput", "training from memory", "images/s", f"precision=fp32, {_NETWORK}"),
        {_V100: (371.4, 379.8), _T4: (112.6, 114.1)},
    ),
    Measured(
        *("throughput", "training from memory", "images/s", f"precision=fp16, {_NETWORK}"),
        {_V100: (802.7, 821.3), _T4: (298.5, 303.2)},
    ),
    Measured(
        *("throughput", "training from disk", "images/s", f"precision=fp16, {_NETWORK}"),
        {_V100: (741.0, 666.9), _T4: (291.8, 296.4)},
    ),
    Measured(
        *("throughput", "memory copy", "GB/s", "bytes=1073741824"),
        {_V100: (781.2, 780.6), _T4: (238.9, 239.3)},
    ),
    Measured(
        *("collectives", "all-reduce bandwidth", "GB/s", "ranks=2, bytes=67108864, backend=nccl"),
        {_V100: (41.8, 42.3), _T4: (9.7, 9.8)},
        gpus=2,
    ),
    Measured(
        *("storage", "read 4K depth 32", "MB/s", "folder=scratch, pattern=4K depth 32, direct=1"),
        {_DISK: (312.4, 309.7)},
        gpus=0,
    ),
)


@dataclass(frozen=True)
class BenchmarkPast(Past):
    """Past of benchmarks: their runs, each with its results."""

    runs: Sequence[tuple[BenchmarkRun, Sequence[BenchmarkResult]]]

    async def write(self, store: Store) -> None:
        table = store.table(BenchmarkRunTable)
        for run, results in self.runs:
            await table.add_run(run)
            await table.take(run, results, taken_at=run.taken_at)


async def past(_store: Store, now: float) -> BenchmarkPast:
    """Return the past of a demo that begins ``now`` (Unix seconds)."""
    return finished_benchmarks(now)


def finished_benchmarks(now: float) -> BenchmarkPast:
    """Return runs whose results were taken before ``now`` (Unix seconds)."""
    runs = []
    for number, example in enumerate(RUNS):
        at = now - example.ago * _HOUR
        results = list(_results(number, at))
        run = BenchmarkRun(
            user=USER,
            run=example.id,
            name="example",
            environment=ENVIRONMENT,
            origin=RUNS[0].id if number else "",
            version=example.version,
            added_at=at - _HOUR,
            taken_at=at,
            told_at=at,  # no mail: it would be about nothing
            falls=tuple(falls(results)),
        )
        runs.append((run, results))
    return BenchmarkPast([], [], runs)


def _results(number: int, at: float) -> Iterator[BenchmarkResult]:
    example = RUNS[number]
    for measured in MEASURED:
        for (gpu_type, node), values in measured.values.items():
            yield BenchmarkResult(
                user=USER,
                run=example.id,
                benchmark=measured.benchmark,
                environment=ENVIRONMENT,
                version=example.version,
                gpu_type=gpu_type,
                gpus=measured.gpus,
                nodes=node,
                name=measured.name,
                value=values[number],
                unit=measured.unit,
                conditions=measured.conditions,
                peak="",
                operations=0,
                simulated=True,  # the disk's too: nothing was measured
                before=values[number - 1] if number else None,
                at=at,
            )


def removal() -> Sequence[Delete]:
    """Return the statements that delete the made up results."""
    return (
        delete(benchmark_results).where(benchmark_results.c.user == USER),
        delete(benchmark_runs).where(benchmark_runs.c.user == USER),
    )


PART = DemoPart(lambda *_: None, past, removal)
