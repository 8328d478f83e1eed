"""What sessions say of their own GPUs. It is shown, and never counted as usage.

A session numbers its GPUs as it sees them inside the job, often from 0; Slurm's indexes come
from the snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypedDict

from ..errors import InvalidRequest, NotAllowed
from ..models.cluster.cluster import ClusterSnapshot, Job, Node
from ..models.cluster.gpu import GpuReading
from ..models.session.telemetry import ReportedGpu, TelemetryReport
from .gpu_holders import Gpu, holders

SOURCE = "session"


class Reported:
    """The newest report of each job."""

    def __init__(self) -> None:
        self._of_jobs: dict[str, tuple[float, list[GpuReading]]] = {}  # when, by time.monotonic()

    def take(self, job: Job, report: TelemetryReport, at: float, first: Node | None = None) -> None:
        """Keep ``report`` of ``job``, made at ``at`` (Unix seconds). ``first``: its first node.

        Raises InvalidRequest and NotAllowed with a sentence.
        """
        if report.job_id != job.id:
            raise NotAllowed(f"Job {report.job_id} is not this session's job.")
        if not job.state.running:
            raise NotAllowed(f"Job {job.id} is not running: there is nothing to report of it.")
        check(report, job, first)
        # The server runs on the job's first node, and sees that node's GPUs only.
        node = job.nodes[0] if job.nodes else ""
        held = sorted(job.gpu_indexes.get(node, ()))
        readings = [
            GpuReading(
                node=node,
                index=index,
                at=at,
                source=SOURCE,
                uuid=gpu.uuid,
                utilization=None if gpu.mig else gpu.utilization,
                memory_used=gpu.memory_used,
                memory_total=gpu.memory_total,
                mig=gpu.mig,
            )
            for index, gpu in indexes(report.gpus, held)
        ]
        self._of_jobs[job.id] = time.monotonic(), readings

    def readings(self, snapshot: ClusterSnapshot, max_age: float) -> dict[Gpu, GpuReading]:
        """Readings of the last ``max_age`` seconds of GPUs that the reporting job still holds."""
        found: dict[Gpu, GpuReading] = {}
        if not self._of_jobs:
            return found
        holds = holders(snapshot)
        oldest = time.monotonic() - max_age
        for job_id, kept in list(self._of_jobs.items()):
            heard_at, readings = kept
            if heard_at < oldest:
                # Pages are made in a thread: a newer report may have come meanwhile.
                if self._of_jobs.get(job_id) is kept:
                    self._of_jobs.pop(job_id, None)
                continue
            for reading in readings:
                gpu = (reading.node, reading.index)
                job = holds.get(gpu)
                if job is not None and job.id == job_id and reading.at >= (job.start_time or 0):
                    found[gpu] = reading
        return found


def check(report: TelemetryReport, job: Job, first: Node | None = None) -> None:
    """Raise InvalidRequest for a report that cannot be true of ``job``; ``first`` is its node."""
    held = len(job.gpu_indexes.get(job.nodes[0], ())) if job.nodes else 0
    most = held or job.gpus
    if len(report.gpus) > most:
        raise InvalidRequest(
            f"The report names {len(report.gpus)} GPUs, and job {job.id} has {most} there.", "gpus"
        )
    for name in ("index", "minor", "uuid"):
        said = [value for gpu in report.gpus if (value := getattr(gpu, name)) not in (None, "")]
        if len(set(said)) < len(said):
            raise InvalidRequest(f"Two GPUs of the report have the same '{name}'.", "gpus")
    for gpu in report.gpus:
        used, total = gpu.memory_used, gpu.memory_total
        if used is not None and total is not None and used > total:
            raise InvalidRequest(
                f"GPU {gpu.index} of the report uses more memory than it has.", "gpus"
            )
    # A job cannot use more memory than its node has. Slurm may be told less than there is
    # (slurm.conf(5), RealMemory), so twice that is where belief ends.
    claimed = report.memory_used or 0
    if first is not None and first.memory > 1 and claimed > 2 * first.memory:
        raise InvalidRequest(
            f"The report claims {claimed} MiB of memory, and {first.name} has {first.memory}.",
            "memory_used",
        )


def indexes(reported: tuple[ReportedGpu, ...], held: list[int]) -> list[tuple[int, ReportedGpu]]:
    """Slurm's index of each reported GPU; one whose index is not sure is left out."""
    by_minor = {gpu.minor: gpu for gpu in reported if gpu.minor is not None}
    if len(reported) == len(held):
        in_order = sorted(by_minor.items()) if len(by_minor) == len(reported) else None
        order = in_order or sorted((gpu.index, gpu) for gpu in reported)
        return [(index, gpu) for index, (_, gpu) in zip(held, order, strict=True)]
    return [(index, by_minor[index]) for index in held if index in by_minor]


class Sums(TypedDict):
    """What one report adds to its session: seconds of GPUs, and MiB of all of them together."""

    gpu_seconds: float
    busy_seconds: float
    gpu_memory_used: int | None


def sums(
    report: TelemetryReport, seconds: float, busy: Callable[[ReportedGpu], bool | None]
) -> Sums:
    """What a report that stands for ``seconds`` adds. A GPU of which it is not known whether it was
    used adds nothing."""
    known = [used for gpu in report.gpus if (used := busy(gpu)) is not None]
    memory = [gpu.memory_used for gpu in report.gpus if gpu.memory_used is not None]
    return Sums(
        gpu_seconds=seconds * len(known),
        busy_seconds=seconds * known.count(True),
        gpu_memory_used=sum(memory) if memory else None,
    )
