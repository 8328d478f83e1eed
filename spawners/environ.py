"""The environment that is handed to sbatch, and with it every secret of a session.

Only PORTAL_… and APPTAINERENV_… leave the Hub: sudo keeps just these (deploy/sudoers), Apptainer
passes the latter into the container by itself, and the job script renames them for the others.
A command line would show them to everyone on the node.
"""

from __future__ import annotations

import base64
import json
import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING

from portal.launch.container import (
    course_environment,
    course_home,
    course_variables,
    image_environment,
    node_copy,
    script_environment,
    session_variables,
)
from portal.launch.request import LaunchRequest
from portal.launch.tensorboard import PAGE

from .reports import report_environment
from .tensorboard import tensorboard_environment

if TYPE_CHECKING:
    from .slurm import PortalSpawner

# Slurm and sudo set the first three for the user; the old name of the token is not needed twice.
_NOT_PASSED = ("USER", "HOME", "SHELL", "JPY_API_TOKEN")


def job_environment(spawner: PortalSpawner, request: LaunchRequest, home: str) -> dict[str, str]:
    """Variables for sbatch's process, from which the job takes its own (sbatch(1) --export)."""
    environment, account = request.environment, spawner.account
    inside = course_home(account) if request.course else home
    vendor = spawner.shared.gpus.vendor_for(request.resources.gpu_type)
    session = {
        key: value
        for key, value in spawner.get_env().items()
        if key not in _NOT_PASSED and not key.startswith("JUPYTERHUB_SSL_")
    }
    session |= session_variables(
        environment,
        request.resources,
        home=inside,
        apptainer=spawner.apptainer,
        binds=spawner.container_binds(),
        vendor=vendor,
    )
    session |= course_variables(request.course)
    session |= report_environment(spawner)
    session |= tensorboard_environment(spawner, environment, alone=request.course is not None)
    if request.tensorboard:
        session["PORTAL_TENSORBOARD"] = json.dumps(request.tensorboard)
        session["JUPYTERHUB_DEFAULT_URL"] = PAGE
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
    env |= course_environment(request.course, home, account)
    env["PORTAL_UMASK"] = spawner.session_umask
    if spawner.cert_paths:
        # The Hub's account cannot write into homes: the certificate travels with the job.
        for name, key in (("KEY", "keyfile"), ("CERT", "certfile"), ("CA", "cafile")):
            content = Path(spawner.cert_paths[key]).read_bytes()
            env[f"PORTAL_SSL_{name}"] = base64.b64encode(content).decode()
    return env
