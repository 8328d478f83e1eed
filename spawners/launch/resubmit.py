"""Resubmission of a launch's job that came to nothing through no fault of its own."""

from __future__ import annotations

from jupyterhub import orm

from portal.errors import Conflict
from portal.launch.request import LaunchRequest
from portal.models.cluster.cluster import Job, JobState
from portal.sessions.ending import is_refused

from ..session import SessionSpawner
from .job_log import make_log
from .submit import submit_once


def lost(job: Job, log: str, *, serves: bool = True) -> bool:
    """Return True if an ended ``job`` came to nothing through no fault of its own: Slurm has
    forgotten it, its node failed, or its node did not begin it (a prolog failed).

    ``log``: the session's, whose first line the job's script writes at once. A node refuses a
    job with the id of one that it has just ended because slurmctld had lost it ("already killed,
    do not launch batch job", slurmd's req.c); Slurm calls that job FAILED, or cancels it as
    root. ``serves``: the job's
    program is a server. One that is none is used as soon as it runs, perhaps before the Hub knows:
    what has begun is not begun again.
    """
    if log and not serves:
        return False
    if is_refused(job, log):
        return True
    if job.state is JobState.FAILED or (job.state is JobState.CANCELLED and job.node_trouble):
        return not log
    return job.state in (JobState.UNKNOWN, JobState.NODE_FAIL, JobState.BOOT_FAIL)


def reason_of(job: Job) -> str:
    """Return why the job of a launch is submitted again."""
    if job.state is JobState.UNKNOWN:
        return f"Slurm has lost job {job.id}"
    if job.state in (JobState.FAILED, JobState.CANCELLED) and job.node_trouble:
        return f"Job {job.id} could not start on {job.node_trouble}"
    if job.state in (JobState.FAILED, JobState.CANCELLED):
        return f"Its node did not start job {job.id}"
    return f"The node of job {job.id} failed"


async def submit_again(spawner: SessionSpawner, request: LaunchRequest) -> str:
    """Submit the job of a launch anew, after the one before is surely gone; return its id.

    It has a token and a log of its own. A node whose job slurmctld has lost may run that job's
    server until slurmctld hears of it: its port is refused, and nobody can log in there. Raises
    what ``submit_once`` raises.
    """
    token = _new_token(spawner)
    spawner.log_name = await make_log(spawner.log_directory, spawner.account)
    return await submit_once(spawner, request, token)


def _new_token(spawner: SessionSpawner) -> str:
    """Replace the session's token by a new one with the same rights, and return that.

    ``spawner.api_token`` keeps the text of the first: if it differs after ``start``, JupyterHub
    registers the session's logins anew, without their scopes (jupyterhub/user.py, spawn).
    """
    db = spawner.user.db
    before = db.get(orm.APIToken, spawner.token_id)
    if before is None:
        raise Conflict(
            "The Hub has lost this session's token. Stop the session and launch it again."
        )
    token = str(spawner.user.new_api_token(note=before.note, scopes=list(before.scopes)))
    row = orm.APIToken.find(db, token)
    client = spawner.orm_spawner.oauth_client
    if client is not None:
        client.secret = row.hashed  # see SessionSpawner.become
    spawner.token_id = row.id
    db.delete(before)
    db.commit()
    return token
