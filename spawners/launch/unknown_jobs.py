"""Jobs of an earlier launch of a server that the Hub does not know: it was killed while Slurm did
not answer its sbatch (lifecycle/orphans.py finds what comes later).

They cannot become the session's: their log, and the token with which they report, were known to the
killed Hub only. So they end before another one is submitted, or what a run does is done twice.
"""

from __future__ import annotations

import time

from portal.errors import Conflict, SlurmUnavailable
from portal.launch.kinds.kind import Kind
from portal.models.cluster.array import array_id, whole_job
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState
from portal.sessions.unknown_jobs import server_of

from ..lifecycle.job_watch import JobWatch
from ..lifecycle.orphans import record_of
from ..session import SessionSpawner
from .job_log import log_prefix

_AFTER_START = 900.0  # seconds; after that, the search for unknown jobs has found what there is


async def end_unknown(spawner: SessionSpawner, kind: Kind) -> None:
    """End the living jobs of this server that the Hub does not know, before one of ``kind`` is
    submitted.

    Raises Conflict if one runs a session of the owner's own, which may hold their work;
    SlurmUnavailable if Slurm does not answer.
    """
    shared = spawner.shared
    lost = {
        record.job_id for record in shared.recorder.closing.orphans(spawner.user.name, spawner.name)
    }
    asked = time.monotonic()
    if not lost and asked - shared.began > _AFTER_START:
        return
    snapshot = await shared.cluster.snapshot(asked, jobs_only=True, urgent=True)
    if snapshot.error or (snapshot.asked_at or 0.0) < asked:
        raise SlurmUnavailable(
            f"Slurm does not answer now, so nothing was submitted. {snapshot.error}".strip()
            + " Try again in a minute."
        )
    known = {*shared.recorder.job_ids} - lost
    for job in _living(spawner, snapshot):
        if job.id in known:
            continue
        if kind.serves and spawner.reserved is None and not job.state.pending:
            if job.id not in lost:  # the Sessions page does not show it yet
                record = record_of(job)
                shared.recorder.note(record)
                shared.recorder.close(record)
            raise Conflict(
                f"Job {job.id} of this session runs on {', '.join(job.nodes)}, but the portal no "
                "longer knows it: the Hub was killed while it started, or its database was "
                "restored from an older copy. Nobody can open it any more. End it on the Sessions "
                "page, then launch again."
            )
        spawner.log.warning(
            "%s: job %s of an earlier launch is not known and is cancelled before another one is "
            "submitted", spawner._log_name, job.id,
        )  # fmt: skip
        watch = JobWatch(shared.cluster, job.id, spawner.account, spawner.log)
        if not await spawner.end_job(watch, gently=False):
            raise Conflict(
                f"Job {job.id} of an earlier start is still ending, so nothing was submitted. Try "
                "again in a minute."
            )


def _living(spawner: SessionSpawner, snapshot: ClusterSnapshot) -> list[Job]:
    """Return the owner's jobs with this Hub's mark of this server that wait or run, an array as one
    job."""
    logs, jobs = f"{spawner.log_directory}/{log_prefix()}-", snapshot.jobs
    marked = (
        array_id(job.id)
        for job in jobs.values()
        if job.user == spawner.account and server_of(job, logs) == spawner.name
    )
    whole = (whole_job(jobs, id_) for id_ in dict.fromkeys(marked))
    return [
        job
        for job in whole
        if job is not None and not job.state.ended and job.state is not JobState.COMPLETING
    ]
