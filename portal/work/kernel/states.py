"""State of a kernel in a job of its own, for the session whose notebook has it. Pure."""

from __future__ import annotations

from enum import StrEnum

from portal.models import Frozen
from portal.models.cluster.cluster import JobState
from portal.models.cluster.dashboard import JobItem
from portal.models.session.idle import IdleState
from portal.models.session.session import SessionRecord, SessionState
from portal.models.words import clock, ordinal
from portal.sessions.ending import words_for

# Endings that were wanted: their logs are of no interest.
_WANTED = frozenset({"completed", "stopped", "cancelled", "moved", "idle"})


class JobKernelPhase(StrEnum):
    """Phase of a kernel in a job of its own."""

    WAITING = "waiting"  # its job is submitted, or waits
    RUNNING = "running"  # its job runs
    ENDED = "ended"


class JobKernelState(Frozen):
    """State of a kernel in a job of its own. ``message``: why it waits, where it runs, or how it
    ended, as a sentence. ``log``: the end of its job's log if it ended badly. ``job_id`` and
    ``node`` are empty until they are known. ``ends_at``: the end of its time limit in Unix seconds,
    while it runs, or the earlier time at which its idle GPUs are given back, once its owner is
    warned of that. ``position``: its place in the queue, from 1, and ``expected_start``, in Unix
    seconds: while it waits, if Slurm knows them."""

    id: str
    state: JobKernelPhase
    job_id: str = ""
    message: str = ""
    log: str = ""
    node: str = ""
    ends_at: float | None = None
    position: int | None = None
    expected_start: float | None = None


def submitting(kernel: str) -> JobKernelState:
    """Return the state of a kernel whose job the Hub is submitting."""
    return JobKernelState(
        id=kernel, state=JobKernelPhase.WAITING, message="The job is being submitted."
    )


def unrecorded(kernel: str) -> JobKernelState:
    """Return the state of a kernel that runs, and that the database does not have yet."""
    return JobKernelState(id=kernel, state=JobKernelPhase.RUNNING, message="The job is running.")


def state_of(
    kernel: str,
    record: SessionRecord,
    job: JobItem | None,
    now: float,
    idle: IdleState | None = None,
) -> JobKernelState:
    """Return the state of the kernel with the session ``record``. ``job``: as Slurm has it; None
    if Slurm was last asked before. ``now``: Unix seconds. ``idle``: whether its GPUs are used."""
    nodes = record.nodes or (job.nodes if job else ())
    runs = job is not None and job.state in JobState.__members__ and JobState(job.state).running
    if record.state is SessionState.ENDED:
        phase, message = JobKernelPhase.ENDED, _ending(record)
    elif runs or record.state is not SessionState.PENDING:
        phase = JobKernelPhase.RUNNING
        message = f"Job {record.job_id} is running{f' on {nodes[0]}' if nodes else ''}."
        if idle is not None and idle.warned:
            message = f"{message} {_warning(idle, now)}"
    else:
        phase, message = JobKernelPhase.WAITING, _waits(record, job, now)
    waits = job if phase is JobKernelPhase.WAITING else None
    badly = phase is JobKernelPhase.ENDED and record.ending_code not in _WANTED
    return JobKernelState(
        id=kernel,
        state=phase,
        job_id=record.job_id,
        message=message,
        log=record.log if badly else "",
        node=nodes[0] if nodes else "",
        ends_at=_ends_at(job, idle) if phase is JobKernelPhase.RUNNING else None,
        position=waits.position if waits else None,
        expected_start=waits.expected_start if waits else None,
    )


def _ends_at(job: JobItem | None, idle: IdleState | None) -> float | None:
    stops_at = idle.stops_at if idle is not None and idle.warned else None
    times = [at for at in (job.end_time if job else None, stops_at) if at is not None]
    return min(times, default=None)


def _warning(idle: IdleState, now: float) -> str:
    if idle.stops_at is None:
        return "Its GPUs are idle. Shut it down if you do not need them."
    stop = clock(idle.stops_at, now)
    return f"Its GPUs are idle: it will be stopped at {stop} unless a cell runs."


def _ending(record: SessionRecord) -> str:
    return words_for(record, record.user) or "How the kernel ended is unknown."


def _waits(record: SessionRecord, job: JobItem | None, now: float) -> str:
    if job is None:
        return f"Job {record.job_id} was submitted."
    details = []
    if job.position:
        details.append(f"{ordinal(job.position)} in the queue")
    if job.expected_start and job.expected_start > now:
        details.append(f"expected {clock(job.expected_start, now)}")
    why = f"Job {job.id}: {job.words}"
    return f"{why}: {', '.join(details)}." if details else f"{why}."
