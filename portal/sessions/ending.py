"""Reasons for the end of a session, in words.

Slurm's states alone do not tell: a job over its memory is OUT_OF_MEMORY if cgroups kill it, and
FAILED with JobLaunchFailure if slurmstepd does (OverMemoryKill), with the reason only on the job's
stderr. Both are read.
"""

from __future__ import annotations

import re

from ..launch.cause import cause_of
from ..launch.kinds import JupyterLab, kind_of
from ..launch.kinds.kind import KindWords
from ..models import Frozen
from ..models.cluster.array import ArrayJob
from ..models.cluster.cluster import Job, JobState
from ..models.session.session import SessionRecord
from ..models.session.stop_reason import STOP_TITLES
from ..models.words import clock, duration

# Titles of all codes, for pages.
TITLES = {
    "completed": "Shut down from inside",
    "stopped": "Stopped",
    **{code.value: title for code, title in STOP_TITLES.items()},
    "cancelled": "Cancelled in Slurm",
    "walltime": "Time limit",
    "out_of_memory": "Out of memory",
    "node_failure": "Node failure",
    "preempted": "Preempted",
    "moved": "Resources changed",
    "start_failed": "Could not start",
    "failed": "Failed",
    "unknown": "Unknown",
}

_RUN = "run"  # the key of a run's options (portal.work.run.kind)
_SUCCEEDED = re.compile(r"([0-9,]+ of [0-9,]+) points? succeeded")  # see _reason_of_array
_WIDTH = 1000
# Who cancels a job that its node refuses, and within how many seconds of its start.
_SLURM = ("root", "slurm")
_REFUSED_WITHIN = 3.0
# Of the tasks of an array: in a sentence after their number, and as a code if all have the same.
_ENDINGS = {
    JobState.TIMEOUT: "reached the time limit",
    JobState.DEADLINE: "reached the deadline",
    JobState.OUT_OF_MEMORY: "used more memory than requested",
    JobState.NODE_FAIL: "ended with their node",
    JobState.BOOT_FAIL: "ended with their node",
    JobState.PREEMPTED: "were preempted",
    JobState.CANCELLED: "were cancelled",
    JobState.REVOKED: "were cancelled",
}
_CODES = {
    JobState.TIMEOUT: "walltime",
    JobState.DEADLINE: "walltime",
    JobState.OUT_OF_MEMORY: "out_of_memory",
    JobState.NODE_FAIL: "node_failure",
    JobState.BOOT_FAIL: "node_failure",
    JobState.PREEMPTED: "preempted",
    JobState.CANCELLED: "cancelled",
}
_OUT_OF_MEMORY = re.compile(
    r"exceeded (job |step )?memory limit|memory limit .*being killed|oom[-_ ]kill|"
    r"some of the step tasks have been OOM Killed",
    re.IGNORECASE,
)


class Ending(Frozen):
    """End of a session."""

    code: str  # for programs
    message: str  # a sentence or two for its owner
    log: str = ""  # tail of the job's log, plain text
    job_id: str = ""  # Slurm's
    by: str = ""  # who stopped it in the portal or cancelled its job in Slurm, if known
    at: float | None = None  # Unix seconds
    session: str = ""  # the id of its record; "": it has none

    def dated_words(self, owner: str, noun: str, now: float) -> str:
        """Return when a session ended, called ``noun``, and why, for its ``owner``. ``now``: Unix
        seconds."""
        time = clock(self.at, now) if self.at else ""
        at = time and f"{'on' if ' ' in time else 'at'} {time}"  # with the day if not today
        if self.code == "stopped":
            return _stop_words_of(self.message, self.by, owner, owner, noun, at)
        return f"Ended {at}. {self.message}" if at else self.message


def explain(
    job: Job,
    log: str,
    *,
    stopped: bool = False,
    ready: bool = True,
    stopped_by: str = "",
    owner: str = "",
    about: KindWords = JupyterLab.words,
) -> Ending:
    """Return the ending of an ended ``job``, in the words of its kind.

    ``log`` is the tail of its log; ``stopped``: the portal itself ended it on request,
    ``stopped_by``: of whom (a name of the Hub); ``ready``: its server had answered, so that a
    failure is not a failed start. ``owner``: the session's owner, who reads the message.
    """
    # Lines are cut: a crafted long line could make the patterns hold up the Hub.
    lines = "\n".join(line[:_WIDTH] for line in log.splitlines())
    code, message = _reason(job, lines, stopped, ready, about)
    by = ""
    if code == "stopped":
        by = stopped_by
        message = stop_words(by, owner, owner, about.noun)
    elif code == "cancelled" and not message:
        by = cancelled_by(job)
        message = cancel_words(by, job.user, job.user if owner else "")
    return Ending(code=code, message=message, log=log, job_id=job.id, by=by)


def title_of(record: SessionRecord) -> str:
    """Return how this session ended in a few words, of a run with its numbers."""
    if numbers := _SUCCEEDED.search(record.ending_message if _RUN in record.options else ""):
        return f"{numbers[1]} succeeded"
    return TITLES.get(record.ending_code or "unknown", TITLES["unknown"])


def words_for(record: SessionRecord, viewer: str) -> str:
    """Return why this session ended, for the person called ``viewer``; "" while it lives."""
    if record.ending_code == "stopped":
        noun, by = kind_of(record).words.noun, record.stopped_by
        return _stop_words_of(record.ending_message, by, record.user, viewer, noun)
    if record.ending_code == "cancelled" and record.stopped_by:
        owner = record.account or record.user
        return cancel_words(record.stopped_by, owner, owner if viewer == record.user else viewer)
    return record.ending_message


def stop_words(by: str, owner: str, viewer: str, noun: str, reason: str = "", at: str = "") -> str:
    """Return a sentence for ``viewer`` on who stopped a session, called ``noun``, from the
    portal, with the ``reason`` that was given. ``at``: "at 14:08", where its page shows it."""
    which, when = (f"this {noun}", f" {at}") if at else (f"the {noun}", "")
    if not by:
        return f"{which.capitalize()} was stopped from the portal{when}."
    who = "You" if by == viewer else by if by == owner else f"An administrator ({by})"
    return f"{who} stopped {which}{when}" + (f": {reason}" if reason else ".")


def _stop_words_of(message: str, by: str, owner: str, viewer: str, noun: str, at: str = "") -> str:
    """Return ``stop_words`` with the reason that a stored ``message`` to the owner gives."""
    to_owner = stop_words(by, owner, owner, noun).removesuffix(".")
    _, _, reason = message.partition(f"{to_owner}: ")
    return stop_words(by, owner, viewer, noun, reason, at)


def cancel_words(by: str, owner: str, viewer: str) -> str:
    """Return a sentence on who cancelled a session's job; names are accounts of the cluster."""
    words = "The job was cancelled in Slurm (scancel)"
    if not by:
        return f"{words}."
    if by == viewer:
        return f"{words} by you."
    return f"{words} by {by}." if by == owner else f"{words} by an administrator ({by})."


def cancelled_by(job: Job) -> str:
    """Return who ran scancel, as portal.slurm found out; "" if it did not."""
    word, _, name = job.reason.partition(":")
    return name if word == "CancelledBy" else ""


def is_refused(job: Job, log: str) -> bool:
    """Return True if its node refused a job that nobody has cancelled. slurmd does so if the job
    has the number of one that it has just ended, because slurmctld had lost that; Slurm then
    cancels it as root, before its script writes the first line of the ``log``."""
    ran = (job.end_time or 0.0) - (job.start_time or 0.0)
    at_once = bool(job.nodes) and ran <= _REFUSED_WITHIN and not log and not job.node_trouble
    return job.state is JobState.CANCELLED and at_once and cancelled_by(job) in _SLURM


def refusal_words(job: Job) -> str:
    """Return a sentence about a job that its node refused."""
    return (
        f"{', '.join(job.nodes)} refused job {job.id}: it had just ended a job with the same "
        "number, which Slurm had lost."
    )


def out_of_memory(job: Job, log: str) -> bool:
    """Return True if the job was ended for its memory, in either of Slurm's forms."""
    return job.state is JobState.OUT_OF_MEMORY or (
        job.state in (JobState.FAILED, JobState.CANCELLED, JobState.COMPLETED)
        and bool(job.exit_code or job.exit_signal)
        and bool(_OUT_OF_MEMORY.search(log))
    )


def _reason(job: Job, log: str, stopped: bool, ready: bool, about: KindWords) -> tuple[str, str]:
    state, it = job.state, f"The {about.noun}"
    whole = state is JobState.CANCELLED and len(getattr(job, "tasks", ())) < 2
    if isinstance(job, ArrayJob) and not stopped and not whole:
        return _reason_of_array(job, log)
    where = f" on {', '.join(job.nodes)}" if job.nodes else ""
    if job.node_trouble:
        where = f" on {job.node_trouble}"
    if out_of_memory(job, log):
        words = memory_words(job)
        return (
            "out_of_memory",
            f"{it} used more memory than requested and was killed.{words}",
        )
    if state is JobState.TIMEOUT:
        limit = f" of {duration(job.time_limit)}" if job.time_limit else ""
        return (
            "walltime",
            f"{it} reached its time limit{limit}. {about.longer}",
        )
    if state is JobState.DEADLINE:
        return "walltime", f"{it} reached the deadline of its job."
    if state in (JobState.NODE_FAIL, JobState.BOOT_FAIL):
        return "node_failure", f"The node failed{where}. Your files are safe: launch again."
    if state is JobState.PREEMPTED:
        return "preempted", f"Slurm preempted the {about.noun} for a job with higher priority."
    if state is JobState.UNKNOWN:
        return "unknown", "The job is unknown to slurmctld and to Slurm's accounting."
    if stopped:
        return "stopped", ""
    if is_refused(job, log):
        return "start_failed", f"{it} could not start. {refusal_words(job)} Launch again."
    if state is JobState.CANCELLED and job.node_trouble:
        if not ready:
            return (
                "start_failed",
                f"{it} could not start{where}, and Slurm took that node out of service. "
                "Launch again: Slurm chooses another node.",
            )
        who = f" by {by}" if (by := cancelled_by(job)) else ""
        return (
            "node_failure",
            f"The job was cancelled in Slurm{who} while its node was taken out of service: "
            f"{job.node_trouble}. Your files are safe: launch again.",
        )
    if state in (JobState.CANCELLED, JobState.REVOKED):
        return "cancelled", ""
    code = "failed" if ready else "start_failed"
    what = f"{it} ended" if ready else f"{it} could not start"
    if state is JobState.COMPLETED:
        if ready:
            return "completed", about.shut_down
        return (
            code,
            f"{what}: its {about.program} exited immediately, without an error code{where}.",
        )
    if state in (JobState.LAUNCH_FAILED, JobState.RECONFIG_FAIL):
        return code, f"{what}: Slurm could not launch the job{where} ({state})."
    cause = cause_of(log)
    if job.exit_signal:
        return (
            code,
            f"{what}: the {about.program} was killed by signal {job.exit_signal}{where}.{cause}",
        )
    return code, f"{what}: its {about.program} exited with code {job.exit_code}{where}.{cause}"


def _reason_of_array(job: ArrayJob, log: str) -> tuple[str, str]:
    """Return the code, and a sentence with the numbers; "failed" if the tasks ended differently."""
    count, completed = job.ended_tasks, job.tasks.get(JobState.COMPLETED, 0)
    points = f"{completed:,} of {count:,} point{'' if count == 1 else 's'} succeeded"
    if completed == count:
        return "finished", f"The run has finished: {points}."
    parts = [
        f"{number:,} {_ending(state, number)}"
        for state, number in sorted(job.tasks.items(), key=lambda item: -item[1])
        if state is not JobState.COMPLETED
    ]
    code = _CODES.get(job.state, "failed")
    cause = cause_of(log) if JobState.FAILED in job.tasks else ""
    return code, f"The run has ended: {', '.join([points, *parts])}.{cause}"


def _ending(state: JobState, number: int) -> str:
    """Return how this number of tasks has ended."""
    words = _ENDINGS.get(state, "failed")
    return words.replace("were ", "was ", 1).replace("their", "its") if number == 1 else words


def memory_words(job: Job) -> str:
    """Return " Requested: … Peak: …", as far as Slurm knows them; "" for neither."""
    asked = f" Requested: {_size(job.memory)}." if job.memory else ""
    peak = f" Peak: {_size(job.peak_memory)}." if job.peak_memory else ""
    if job.memory and job.peak_memory and job.peak_memory < job.memory:
        # Slurm samples memory every few seconds, and a kill is quicker.
        peak = f" Highest value sampled by Slurm: {_size(job.peak_memory)}."
    return f"{asked}{peak}"


def _size(mib: int) -> str:
    return f"{mib / 1024:.1f} GB" if mib >= 1024 else f"{mib} MB"
