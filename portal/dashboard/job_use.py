"""Use of GPUs and memory of the jobs that run, over time: few numbers for each, however long."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..models.cluster.gpu import GpuReading
from ..models.cluster.job_use import JobUse, Values
from ..telemetry.gpu_holders import holders
from .builder import Readings
from .view import ClusterView

_MOST = 120  # stretches of a job; when they are full, each two become one
_MOST_GPUS = 32  # of a job that are told apart
_MINUTE = 60
_TURNS = 5  # a job is written once in so many samples


@dataclass
class _Samples:
    """Use of one job since the service knows it: for each name of a value, the sum and number of
    what was measured in each stretch."""

    began_at: int
    seconds: int = _MINUTE
    sources: set[str] = field(default_factory=set)
    columns: dict[str, list[list[float]]] = field(default_factory=dict)
    length: int = 0
    last_at: float = 0.0

    def add_values(self, values: Mapping[str, float | None], at: float) -> None:
        self.last_at = at
        while (index := int((at - self.began_at) // self.seconds)) >= _MOST:
            self.seconds *= 2
            self.length = (self.length + 1) // 2
            self.columns = {name: _halved(column) for name, column in self.columns.items()}
        index = max(0, index)  # the clock may have been set back
        self.length = max(self.length, index + 1)
        for name, value in values.items():
            if value is None:
                continue
            column = self.columns.setdefault(name, [])
            column.extend([0.0, 0.0] for _ in range(index + 1 - len(column)))
            column[index][0] += value
            column[index][1] += 1

    def use(self, job_id: str) -> JobUse:
        def means(name: str) -> Values:
            column = self.columns.get(name, [])
            known = tuple(round(total / number) if number else None for total, number in column)
            return known + (None,) * (self.length - len(known))

        return JobUse(
            job_id=job_id,
            began_at=self.began_at,
            seconds=self.seconds,
            sources=",".join(sorted(self.sources)),
            gpu=means("gpu"),
            gpu_memory=means("gpu_memory"),
            memory=means("memory"),
            gpus={name: means(name) for name in sorted(self.columns) if ":" in name},
            last_at=self.last_at,
        )


def _halved(column: list[list[float]]) -> list[list[float]]:
    pairs = [column[first : first + 2] for first in range(0, len(column), 2)]
    return [[sum(numbers) for numbers in zip(*pair, strict=True)] for pair in pairs]


class JobUses:
    """Use of the jobs that run. Of a job that nothing measures, there is none."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Samples] = {}
        self._turn = 0
        self._lock = threading.Lock()  # samples are taken in a thread

    def take(
        self, view: ClusterView, readings: Readings, memory: Mapping[str, int], at: float
    ) -> list[JobUse]:
        """Add what is measured now: ``readings``, and the ``memory`` of jobs (MiB). Return what is
        to be written: each job in its turn, and those that have ended."""
        held: dict[str, list[GpuReading]] = defaultdict(list)
        for gpu, holder in holders(view.snapshot).items():
            if gpu in readings:
                held[holder.id].append(readings[gpu])
        running = {id_ for id_, job in view.snapshot.jobs.items() if job.state.running}
        with self._lock:
            for id_ in running & (held.keys() | memory.keys()):
                gpus = sum(map(len, view.snapshot.jobs[id_].gpu_indexes.values()))
                self._add(id_, held.get(id_, []), memory.get(id_), at, several=gpus > 1)
            self._turn += 1
            ended = self._jobs.keys() - running
            due = [id_ for id_ in self._jobs if (hash(id_) + self._turn) % _TURNS == 0]
            written = self._uses({*due, *ended})
            for id_ in ended:
                del self._jobs[id_]
        return written

    def _add(
        self, id_: str, readings: list[GpuReading], memory: int | None, at: float, *, several: bool
    ) -> None:
        samples = self._jobs.setdefault(id_, _Samples(int(at)))
        samples.sources.update(reading.source for reading in readings)
        loads = [r.utilization for r in readings if r.utilization is not None]
        used = [r.memory_used for r in readings if r.memory_used is not None]
        values: dict[str, float | None] = {
            "gpu": sum(loads) / len(loads) if loads else None,
            "gpu_memory": sum(used) if used else None,
            "memory": memory,
        }
        if several:
            first = sorted(readings, key=lambda r: (r.node, r.index))[:_MOST_GPUS]
            values |= {f"{r.node}:{r.index}": r.utilization for r in first}
        samples.add_values(values, at)

    def use_of(self, job_id: str) -> JobUse | None:
        """Return the use of a job that runs, as far as this service has seen it."""
        with self._lock:
            return next(iter(self._uses([job_id])), None)

    def running(self) -> list[JobUse]:
        """Return all that would be lost with the service."""
        with self._lock:
            return self._uses(self._jobs)

    def _uses(self, ids: Iterable[str]) -> list[JobUse]:
        return [self._jobs[id_].use(id_) for id_ in ids if id_ in self._jobs]
