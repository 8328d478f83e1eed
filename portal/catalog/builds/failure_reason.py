"""Failure reasons, as Slurm knows them, of builds and tests whose jobs gave no result."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import ValidationError

from portal.errors import SlurmRefused
from portal.models.catalog.image_job import Work, WorkState
from portal.models.cluster.cluster import Job, JobState
from portal.models.session.resources import Resources
from portal.models.words import duration


class End(NamedTuple):
    """Final state of a build or test, and the reason; ``message`` is empty if it passed."""

    state: WorkState
    message: str = ""


_SETTING = {
    Work.BUILD: "c.Images.resources",
    Work.TEST: "c.Images.test_resources",
    Work.CACHE: "c.Images.resources",
}
_NO_VERDICT = {
    JobState.NODE_FAIL: "The node failed{where}.",
    JobState.BOOT_FAIL: "The node could not be started{where}.",
    JobState.PREEMPTED: "Slurm preempted the job for one of higher priority.",
    JobState.REVOKED: "Slurm revoked the job.",
    JobState.LAUNCH_FAILED: "Slurm could not launch the job{where}.",
    JobState.RECONFIG_FAIL: "Slurm could not launch the job{where}.",
    JobState.UNKNOWN: "The job is unknown to slurmctld and to Slurm's accounting.",
}


_OVER_TIME = "The job reached its time limit"
_OVER_MEMORY = "The job used more memory than it requested"


def _time(seconds: int | None) -> str:
    return f" of {duration(seconds)}" if seconds else ""


def _memory(mebibytes: int | None) -> str:
    return f" ({mebibytes} MiB)" if mebibytes else ""


def limit_changed(message: str, resources: Resources) -> bool:
    """Return True if a test failed at a limit, as ``end_of`` says, and that limit is another one in
    ``resources``, which the next test gets."""
    limits = ((_OVER_TIME, _time(resources.time)), (_OVER_MEMORY, _memory(resources.memory)))
    return any(
        message.startswith(over) and not message.startswith(f"{over}{limit}")
        for over, limit in limits
    )


def end_of_refusal(error: SlurmRefused | ValidationError, work: Work) -> End:
    """Return the End of a build or test whose job Slurm, or the check of its resources, refused."""
    if isinstance(error, SlurmRefused):
        return End(WorkState.UNKNOWN, f"Slurm refused the job: {error.message}")
    return End(WorkState.UNKNOWN, f"{_SETTING[work]}: {error.errors()[0]['msg']}")


def end_of(job: Job, work: Work) -> End:
    """Return the End of an ended ``job`` that gave no result of its own."""
    where = f" on {', '.join(job.nodes)}" if job.nodes else ""
    state = job.state
    if job.node_trouble:
        where = f" on {job.node_trouble}"
        state = JobState.LAUNCH_FAILED if state is JobState.CANCELLED else state
    if state in _NO_VERDICT:
        return End(WorkState.UNKNOWN, f"{_NO_VERDICT[state].format(where=where)} Try again.")
    if state is JobState.CANCELLED:
        word, _, name = job.reason.partition(":")
        by = f" by {name}" if word == "CancelledBy" and name else ""
        return End(WorkState.CANCELLED, f"The job was cancelled in Slurm{by}.")
    if state in (JobState.TIMEOUT, JobState.DEADLINE):
        over = f"{_OVER_TIME}{_time(job.time_limit)}{where}."
        return End(WorkState.FAILED, f"{over} Increase it in {_SETTING[work]}.")
    if state is JobState.OUT_OF_MEMORY:
        over = f"{_OVER_MEMORY}{_memory(job.memory)}{where}."
        return End(WorkState.FAILED, f"{over} Increase the memory in {_SETTING[work]}.")
    how = f"with code {job.exit_code}" if not job.exit_signal else f"by signal {job.exit_signal}"
    # A job that ends before its report may have failed because of the site as well as the image,
    # so such a test gives no verdict.
    return End(
        WorkState.FAILED if work is Work.BUILD else WorkState.UNKNOWN,
        f"The job ended {how}{where} before it reported a result. See its log.",
    )
