"""Submission of a launch request as a job: exactly once, even if Slurm goes away meanwhile.

slurmctld saves new jobs up to five seconds after it has accepted them (SAVE_MAX_WAIT in its
state_save.c): one that is killed forgets those, and a submission without a response may have been
accepted all the same. Each job has its own log, by which it is found in Slurm.

Every secret of a session is in the environment passed to sbatch, since a command line would show
them to everyone on the node. Only PORTAL_… and APPTAINERENV_… leave the Hub: sudo keeps just
these (deploy/sudoers), Apptainer passes the latter into the container by itself, and the job script
renames them for the others.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import pwd
import time
from collections.abc import Iterator
from pathlib import Path

from portal.errors import SlurmRefused, SlurmUnavailable
from portal.launch import programs
from portal.launch.container import (
    image_environment,
    node_copy,
    sbatch_options,
    script_environment,
    session_command,
    session_script,
    session_variables,
)
from portal.launch.request import LaunchRequest
from portal.logs.request import HEADER, PASSED_ON
from portal.models.catalog.environment import Bind, Environment, EnvironmentKind
from portal.models.cluster.array import array_id
from portal.slurm import CommandTimedOut
from portal.work.kernel.settings import JobKernels

from ..lifecycle.reports import report_environment
from ..session import SessionSpawner

# Slurm and sudo set the first three for the user; the old name of the token is not needed twice.
_NOT_PASSED = ("USER", "HOME", "SHELL", "JPY_API_TOKEN")
_PAUSE = 1.0  # seconds between two queries of a Slurm that is away
_TRIES = 3  # submissions that fail although Slurm answers, before the launch does
_WAITS = "Slurm does not answer. The request will be submitted when Slurm answers again"


async def submit_once(spawner: SessionSpawner, request: LaunchRequest, token: str = "") -> str:
    """Submit a job with ``spawner.log_name`` for its log and wait for a Slurm that is away;
    return the job's id. ``token``: see ``submit``.

    A failed submission is looked for in Slurm before it is repeated. Raises SlurmRefused,
    NotAllowed, and SlurmUnavailable if Slurm answers queries and takes no job.
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


async def _taken(spawner: SessionSpawner) -> tuple[str, bool]:
    """Wait until Slurm answers; return the id of the job with this log, "" if it has none, and
    whether Slurm was away until then."""
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
        own = (job for job in snapshot.jobs.values() if job.user == spawner.account)
        return next((array_id(job.id) for job in own if job.stdout == path), ""), waited


async def submit(
    spawner: SessionSpawner, request: LaunchRequest, log_name: str, token: str = ""
) -> str:
    """Submit the job of a session as its owner; return its id.

    ``log_name``: its log in the folder of logs. ``token``: of the server that the job will start,
    if that is not the spawner's own. Raises SlurmRefused, SlurmUnavailable, NotAllowed.
    """
    home = await spawner.home()
    command = session_command(
        request.environment,
        request.resources,
        home=request.kind.home(spawner.account, home),
        apptainer=spawner.apptainer,
        binds=spawner.container_binds(),
        server=spawner.cmd if request.kind.serves else request.kind.command(),
        args=spawner.get_args() if request.kind.serves else (),
        module=request.kind.module,
        beside=spawner.shared.images.beside,
        isolated=request.kind.isolated,
        vendor=spawner.shared.gpus.vendor_for(request.resources.gpu_type),
    )
    options = sbatch_options(
        request.resources,
        name=f"portal-{request.environment.name}",
        output=f"{spawner.log_directory}/{log_name}",
        directory=home,
        comment=f"portal:{request.environment.name}:{spawner.name}",
    )
    options += request.kind.sbatch_options()
    with _about_to_start(spawner, token):
        env = job_environment(spawner, request, home)
    argv = ["sbatch", *options, str(session_script()), *command]
    try:
        return await spawner.shared.cluster.submit(argv, env=env, user=spawner.user.name)
    except SlurmRefused as error:
        if not (way_out := request.kind.space.way_out(error.message)):
            raise
        raise SlurmRefused(f"{error.message} {way_out}") from error


@contextlib.contextmanager
def _about_to_start(spawner: SessionSpawner, token: str) -> Iterator[None]:
    """Set the spawner as it is before its server has an address, with this server's token:
    JupyterHub's ``get_env`` reads all of that from it. Nothing may be awaited meanwhile."""
    before = spawner.api_token, spawner.ip, spawner.port
    spawner.api_token = token or spawner.api_token
    spawner.ip, spawner.port = spawner.listen_address, 0
    try:
        yield
    finally:
        spawner.api_token, spawner.ip, spawner.port = before


def job_environment(spawner: SessionSpawner, request: LaunchRequest, home: str) -> dict[str, str]:
    """Return sbatch's environment, from which the job takes its own (sbatch(1) --export)."""
    environment, account = request.environment, spawner.account
    vendor = spawner.shared.gpus.vendor_for(request.resources.gpu_type)
    session = {
        key: value
        for key, value in spawner.get_env().items()
        if key not in _NOT_PASSED and not key.startswith("JUPYTERHUB_SSL_")
    }
    session |= session_variables(
        environment,
        request.resources,
        home=request.kind.home(account, home),
        apptainer=spawner.apptainer,
        binds=spawner.container_binds(),
        vendor=vendor,
    )
    session |= request.kind.variables()
    if request.kind.programs:
        session |= programs.session_variables(request.kind, environment)
    if request.kind.welcomes and not request.kind.isolated and spawner.welcome_notebook:
        session["PORTAL_WELCOME"] = spawner.welcome_notebook
    if request.kind.job_kernels and (ports := spawner.shared.settings.get(JobKernels).ports):
        session["PORTAL_KERNEL_PORTS"] = ports
    session |= report_environment(spawner)
    if id_ := PASSED_ON.get().get(HEADER):
        session["PORTAL_REQUEST_ID"] = id_
    if format_ := os.environ.get("PORTAL_LOG_FORMAT"):
        session["PORTAL_LOG_FORMAT"] = format_
    session |= tensorboard_environment(spawner, environment, alone=request.kind.isolated)
    if spawner.kept_variables:
        session["PORTAL_KEPT_VARIABLES"] = " ".join(spawner.kept_variables)
    env = script_environment(environment, session, vendor)
    images = spawner.shared.images
    env |= image_environment(
        environment,
        apptainer=spawner.apptainer,
        verify=images.verify,
        keys=images.public_keys,
        node_copy=node_copy(environment, images.node_cache),
        account=images.service_account or pwd.getpwuid(os.geteuid()).pw_name,
    )
    env |= request.kind.script_variables(account, home)
    env["PORTAL_UMASK"] = spawner.session_umask
    if spawner.cert_paths:
        # The Hub's account cannot write into homes: the certificate travels with the job.
        for name, key in (("KEY", "keyfile"), ("CERT", "certfile"), ("CA", "cafile")):
            content = Path(spawner.cert_paths[key]).read_bytes()
            env[f"PORTAL_SSL_{name}"] = base64.b64encode(content).decode()
    return env


def tensorboard_roots(
    spawner: SessionSpawner, environment: Environment, *, alone: bool = False
) -> list[str]:
    """Return `tensorboard_roots` and the writable binds, as absolute paths in the session. The
    home is one without being named. ``alone``: nothing of the site is seen there."""
    if alone:
        return []
    binds = [*(Bind(**bind) for bind in spawner.binds), *environment.binds]
    writable = [
        bind.target or bind.source
        if environment.kind is EnvironmentKind.CONTAINER
        else bind.source  # nothing is bound there: the node's own folders
        for bind in binds
        if not bind.read_only
    ]
    return list(dict.fromkeys([*spawner.tensorboard_roots, *writable]))


def tensorboard_environment(
    spawner: SessionSpawner, environment: Environment, *, alone: bool = False
) -> dict[str, str]:
    """Return PORTAL_TENSORBOARD_MEMORY in MiB, and PORTAL_TENSORBOARD_ROOTS as a JSON list."""
    roots = tensorboard_roots(spawner, environment, alone=alone)
    return {
        "PORTAL_TENSORBOARD_MEMORY": str(spawner.tensorboard_memory),
        "PORTAL_TENSORBOARD_ROOTS": json.dumps(roots),
    }
