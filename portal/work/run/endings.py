"""Ends of points that never reported one, as Slurm's accounting has them. Pure."""

from __future__ import annotations

from portal.models.cluster.cluster import Job, JobState
from portal.models.session.run import PointState, RunPoint
from portal.models.words import duration
from portal.sessions.ending import cancelled_by, is_refused, memory_words, refusal_words

_RESUMES = 85  # exit code of a point whose job starts again (deploy/session.sh)
_UNKNOWN = "The run has ended, and this point did not report its outcome."


def without_record(job_id: str) -> Job:
    """Return the task of an array that was cancelled while it waited: slurmctld then forgets it at
    once, and accounting never hears of it."""
    return Job(id=f"{job_id}_[]", state=JobState.CANCELLED, reason="", user="")


def ended_point(point: RunPoint, job: Job | None, run_ended_at: float) -> RunPoint:
    """Return a point that has not reported its end, with the one that Slurm knows of: ``job`` is
    its task; None: unknown. ``run_ended_at`` (Unix seconds): end of the run. Of a point that may
    have run, its last metrics are missing."""
    state, message = _end(job, started=point.started_at is not None)
    began = job.start_time if job is not None and job.nodes else None
    ended = job.end_time if job is not None else None
    return point.model_copy(
        update={
            "state": state,
            "message": message,
            "started_at": point.started_at or began,
            "ended_at": ended or run_ended_at,
            "job": point.job or (job.id if job is not None and "[" not in job.id else ""),
            "missing": job is None or point.started_at is not None or bool(job.nodes),
        }
    )


def _end(job: Job | None, *, started: bool) -> tuple[PointState, str]:
    """Return the state and the sentence. ``started``: the point has reported that it runs."""
    if job is None:
        return PointState.LOST, _UNKNOWN
    where = f" on {', '.join(job.nodes)}" if job.nodes else ""
    if job.state is JobState.COMPLETED:
        return PointState.SUCCEEDED, ""
    if job.state is JobState.OUT_OF_MEMORY:
        words = memory_words(job)
        return PointState.FAILED, f"The point used more memory than requested.{words}"
    if job.state in (JobState.TIMEOUT, JobState.DEADLINE):
        limit = f" of {duration(job.time_limit)}" if job.time_limit else ""
        return PointState.FAILED, f"The point reached its time limit{limit}."
    if job.state in (JobState.NODE_FAIL, JobState.BOOT_FAIL):
        return PointState.FAILED, f"The node failed{where}."
    if job.state is JobState.PREEMPTED:
        return PointState.FAILED, "Slurm preempted the point for a job with higher priority."
    if not started and is_refused(job, ""):
        return PointState.FAILED, f"{refusal_words(job)} Run the point again."
    if job.state in (JobState.CANCELLED, JobState.REVOKED):
        by = f" by {name}" if (name := cancelled_by(job)) else ""
        when = "" if job.nodes or started else " before it started"
        return PointState.FAILED, f"The point was cancelled{by}{when}."
    if job.exit_code == _RESUMES:
        return PointState.FAILED, (
            "The point was saved at its time limit, and Slurm did not start its job again. Its "
            "checkpoint is in the run's folder: run the point again."
        )
    if job.exit_signal:
        return PointState.FAILED, f"The point was killed by signal {job.exit_signal}{where}."
    return PointState.FAILED, f"The point exited with code {job.exit_code}{where}."
