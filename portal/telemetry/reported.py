"""Sessions' reports of their own GPUs. They are shown, and never counted as usage.

A session numbers its GPUs as seen in the job, often from 0; Slurm's indexes are the snapshot's.
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
    """Newest report of each job."""

    def __init__(self) -> None:
        # Time by time.monotonic(), readings, and the memory of the job in MiB.
        self._of_jobs: dict[str, tuple[float, list[GpuReading], int | None]] = {}

    def take(self, job: Job, report: TelemetryReport, at: float, first: Node | None = None) -> None:
        """Keep ``report`` of ``job``, made at ``at`` (Unix seconds). ``first``: its first node.

        Raises InvalidRequest and NotAllowed with a sentence.
        """
        if report.job_id != job.id:
            raise NotAllowed(f"Job {report.job_id} is not this session's job.")
        if not job.state.running:
            raise NotAllowed(f"Job {job.id} is not running: there is nothing to report.")
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
        self._of_jobs[job.id] = time.monotonic(), readings, report.memory_used

    def readings(self, snapshot: ClusterSnapshot, max_age: float) -> dict[Gpu, GpuReading]:
        """Return readings of the last ``max_age`` seconds, for GPUs that their job still holds."""
        current: dict[Gpu, GpuReading] = {}
        if not self._of_jobs:
            return current
        holds = holders(snapshot)
        oldest = time.monotonic() - max_age
        for job_id, report in list(self._of_jobs.items()):
            received_at, readings, _ = report
            if received_at < oldest:
                # Pages are made in a thread: a newer report may have come meanwhile.
                if self._of_jobs.get(job_id) is report:
                    self._of_jobs.pop(job_id, None)
                continue
            for reading in readings:
                gpu = (reading.node, reading.index)
                job = holds.get(gpu)
                if job is not None and job.id == job_id and reading.at >= (job.start_time or 0):
                    current[gpu] = reading
        return current

    def memory(self, max_age: float) -> dict[str, int]:
        """Return the memory (MiB) of the jobs that have reported it in the last ``max_age``
        seconds."""
        oldest = time.monotonic() - max_age
        return {
            id_: memory
            for id_, (received_at, _, memory) in list(self._of_jobs.items())
            if memory is not None and received_at >= oldest
        }


def check(report: TelemetryReport, job: Job, first: Node | None = None) -> None:
    """Check a report. Raises InvalidRequest if it cannot be true of ``job``. ``first``: the job's
    first node."""
    held = len(job.gpu_indexes.get(job.nodes[0], ())) if job.nodes else 0
    most = held or job.gpus
    if len(report.gpus) > most:
        raise InvalidRequest(
            f"The report lists {len(report.gpus)} GPUs, but job {job.id} has {most} on this node.",
            "gpus",
        )
    for name in ("index", "minor", "uuid"):
        values = [value for gpu in report.gpus if (value := getattr(gpu, name)) not in (None, "")]
        if len(set(values)) < len(values):
            raise InvalidRequest(f"Two GPUs of the report have the same '{name}'.", "gpus")
    for gpu in report.gpus:
        used, total = gpu.memory_used, gpu.memory_total
        if used is not None and total is not None and used > total:
            raise InvalidRequest(
                f"GPU {gpu.index} of the report uses more memory than it has.", "gpus"
            )
    # A job cannot use more memory than its node has. Slurm's figure may be configured too low
    # (slurm.conf(5), RealMemory), so only more than twice of it is refused.
    claimed = report.memory_used or 0
    if first is not None and first.memory > 1 and claimed > 2 * first.memory:
        raise InvalidRequest(
            f"The report claims {claimed} MiB of memory, but {first.name} has {first.memory}.",
            "memory_used",
        )


def indexes(reported: tuple[ReportedGpu, ...], held: list[int]) -> list[tuple[int, ReportedGpu]]:
    """Return Slurm's index of each reported GPU; GPUs whose index is not certain are omitted."""
    by_minor = {gpu.minor: gpu for gpu in reported if gpu.minor is not None}
    if len(reported) == len(held):
        in_order = sorted(by_minor.items()) if len(by_minor) == len(reported) else None
        order = in_order or sorted((gpu.index, gpu) for gpu in reported)
        return [(index, gpu) for index, (_, gpu) in zip(held, order, strict=True)]
    return [(index, by_minor[index]) for index in held if index in by_minor]


class Sums(TypedDict):
    """Sums that a report adds to its session: seconds of GPUs, and MiB of all of them together."""

    gpu_seconds: float
    busy_seconds: float
    gpu_memory_used: int | None


def sums(
    report: TelemetryReport, seconds: float, busy: Callable[[ReportedGpu], bool | None]
) -> Sums:
    """Return what a report for ``seconds`` adds. GPUs whose use is unknown add no seconds."""
    known = [used for gpu in report.gpus if (used := busy(gpu)) is not None]
    memory = [gpu.memory_used for gpu in report.gpus if gpu.memory_used is not None]
    return Sums(
        gpu_seconds=seconds * len(known),
        busy_seconds=seconds * known.count(True),
        gpu_memory_used=sum(memory) if memory else None,
    )
