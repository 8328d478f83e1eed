"""The job of a launch, submitted exactly once, also where Slurm goes away in the middle of it.

slurmctld writes new jobs down up to five seconds after it has taken them (SAVE_MAX_WAIT in its
state_save.c): one that is killed forgets those, and a submission whose answer did not come may have
been taken all the same. Each job has its log for itself, so that tells whether Slurm has it.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from jupyterhub import orm

from portal.errors import Conflict, SlurmUnavailable
from portal.launch.request import LaunchRequest
from portal.models.cluster import Job, JobState
from portal.slurm import CommandTimedOut

from .joblog import make_log
from .submit import submit

if TYPE_CHECKING:
    from .slurm import PortalSpawner

_PAUSE = 1.0  # seconds between two looks for a Slurm that is away
_TRIES = 3  # submissions that fail although Slurm answers, before the launch does
_WAITS = "Slurm does not answer. The request waits, and is submitted once Slurm is back"


def lost(job: Job, log: str) -> bool:
    """Return whether an ended ``job`` came to nothing through no fault of its own: Slurm has
    forgotten it, its node failed, or its node did not begin it.

    ``log``: the session's, of which the job's script writes the first line at once. A node takes
    no job with the id of one that it has just ended because slurmctld had lost it ("already
    killed, do not launch batch job", slurmd's req.c); Slurm calls that job FAILED.
    """
    if job.state is JobState.FAILED:
        return not log
    return job.state in (JobState.UNKNOWN, JobState.NODE_FAIL, JobState.BOOT_FAIL)


def reason_of(job: Job) -> str:
    """Why the job of a launch is submitted again."""
    if job.state is JobState.UNKNOWN:
        return f"Slurm has lost job {job.id}"
    if job.state is JobState.FAILED:
        return f"Its node did not begin job {job.id}"
    return f"The node of job {job.id} failed"


async def submit_once(spawner: PortalSpawner, request: LaunchRequest, token: str = "") -> str:
    """Submit a job with ``spawner.log_name`` for its log and wait for a Slurm that is away;
    returns the job's id. ``token``: see ``submit``.

    A submission that failed is looked for in Slurm before it is repeated. Raises SlurmRefused,
    NotAllowed, and SlurmUnavailable where Slurm answers questions and takes no job.
    """
    tries = 0
    while True:
        try:
            return await submit(spawner, request, spawner.log_name, token)
        except SlurmUnavailable as error:
            spawner.log.warning("%s: not submitted yet: %s", spawner._log_name, error.message)
            spawner.progress_state.say(_WAITS)
            if isinstance(error, CommandTimedOut):
                await error.over()
            job_id, waited = await _taken(spawner)
            tries = 0 if waited else tries + 1
            if job_id:
                return job_id
            if tries >= _TRIES:
                raise


async def _taken(spawner: PortalSpawner) -> tuple[str, bool]:
    """Wait until Slurm answers: the id of the job with this log, "" where it has none, and whether
    Slurm was away until then."""
    path, waited = f"{spawner.log_directory}/{spawner.log_name}", False
    while True:
        await asyncio.sleep(_PAUSE)
        asked = time.monotonic()
        try:
            snapshot = await spawner.shared.cluster.snapshot(asked, jobs_only=True)
        except SlurmUnavailable:
            waited = True
            continue
        if snapshot.error or (snapshot.asked_at or 0.0) < asked:
            waited = True
            continue
        own = (one for one in snapshot.jobs.values() if one.user == spawner.account)
        return next((one.id for one in own if one.stdout == path), ""), waited


async def submit_again(spawner: PortalSpawner, request: LaunchRequest) -> str:
    """Submit the job of a launch anew, after the one before is surely gone; returns its id.

    It has a token and a log of its own. A node of which slurmctld has lost a job may run that job's
    server until slurmctld hears of it: nobody takes its port, and nobody can log in there. Raises
    what ``submit_once`` raises.
    """
    token = _new_token(spawner)
    spawner.log_name = await make_log(spawner.log_directory, spawner.account)
    return await submit_once(spawner, request, token)


def _new_token(spawner: PortalSpawner) -> str:
    """A token with the rights of the session's own, which takes its place.

    ``spawner.api_token`` keeps the text of the first: where it differs after ``start``, JupyterHub
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
        client.secret = row.hashed  # see PortalSpawner.become
    spawner.token_id = row.id
    db.delete(before)
    db.commit()
    return token
