"""Why a session ended, in words.

Slurm's states alone do not tell: a job over its memory is OUT_OF_MEMORY where cgroups kill it,
and FAILED with JobLaunchFailure where slurmstepd does (OverMemoryKill), with the reason only on
the job's stderr. Both are read.
"""

from __future__ import annotations

import re

from ..models import Frozen
from ..models.cluster import Job, JobState
from ..models.resources import time_text

_OUT_OF_MEMORY = re.compile(
    r"exceeded (job |step )?memory limit|memory limit .*being killed|oom[-_ ]kill|"
    r"some of the step tasks have been OOM Killed",
    re.IGNORECASE,
)


class Ending(Frozen):
    """Why a session is over. ``code`` is for programs, ``message`` one sentence or two for people.

    ``log`` is the end of the job's log (plain text, may be empty), ``job_id`` Slurm's.
    """

    code: str
    message: str
    log: str = ""
    job_id: str = ""


def out_of_memory(job: Job, log: str) -> bool:
    """Whether the job was ended for its memory, in either of Slurm's forms."""
    return job.state is JobState.OUT_OF_MEMORY or (
        job.state in (JobState.FAILED, JobState.CANCELLED, JobState.COMPLETED)
        and bool(job.exit_code or job.exit_signal)
        and bool(_OUT_OF_MEMORY.search(log))
    )


def explain(job: Job, log: str, *, stopped: bool = False, ready: bool = True) -> Ending:
    """The ending of an ended ``job``.

    ``log`` is the end of its log; ``stopped`` says that the portal itself ended it on request;
    ``ready`` that its server had answered, so that a failure is not a failed start.
    """
    code, message = _reason(job, log, stopped, ready)
    return Ending(code=code, message=message, log=log, job_id=job.id)


def _reason(job: Job, log: str, stopped: bool, ready: bool) -> tuple[str, str]:
    state = job.state
    where = f" on {', '.join(job.nodes)}" if job.nodes else ""
    if out_of_memory(job, log):
        return "out_of_memory", _memory_sentence(job)
    if state is JobState.TIMEOUT:
        limit = f" of {time_text(job.time_limit)}" if job.time_limit else ""
        return "walltime", f"The session reached its time limit{limit}. Ask for more time to go on."
    if state is JobState.DEADLINE:
        return "walltime", "The session reached the deadline that was set for its job."
    if state in (JobState.NODE_FAIL, JobState.BOOT_FAIL):
        return "node_failure", f"The node failed{where}. Your files are safe: launch again."
    if state is JobState.PREEMPTED:
        return "preempted", "Slurm ended the session to make room for a job of higher priority."
    if state is JobState.UNKNOWN:
        return "unknown", "The job is gone: neither slurmctld nor Slurm's accounting knows it."
    if stopped:
        return "stopped", "The session was stopped from the portal."
    if state in (JobState.CANCELLED, JobState.REVOKED):
        return "cancelled", f"The job was cancelled in Slurm (scancel){where}."
    code = "failed" if ready else "start_failed"
    what = "The session ended" if ready else "The session could not start"
    if state is JobState.COMPLETED:
        if ready:
            return "completed", "The server was shut down from inside the session."
        return code, f"{what}: its server ended at once, without an error code{where}."
    if state in (JobState.LAUNCH_FAILED, JobState.RECONFIG_FAIL):
        return code, f"{what}: Slurm could not launch the job{where} ({state})."
    if job.exit_signal:
        return code, f"{what}: it was ended by signal {job.exit_signal}{where}."
    return code, f"{what}: its server ended with code {job.exit_code}{where}."


def _memory_sentence(job: Job) -> str:
    asked = f" It had asked for {_size(job.memory)}." if job.memory else ""
    peak = f" Its peak was {_size(job.peak_memory)}." if job.peak_memory else ""
    return f"The session used more memory than it had asked for, and was ended.{asked}{peak}"


def _size(mib: int) -> str:
    return f"{mib / 1024:.1f} GB" if mib >= 1024 else f"{mib} MB"
