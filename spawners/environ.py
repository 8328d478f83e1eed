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
    image_environment,
    is_beside,
    kernel_container,
    node_copy,
    session_kind,
    user_base,
)
from portal.launch.request import LaunchRequest
from portal.launch.tensorboard import PAGE
from portal.models.environment import Kind

from .reports import report_environment
from .tensorboard import tensorboard_environment

if TYPE_CHECKING:
    from .slurm import PortalSpawner

# Slurm and sudo set the first three for the user; the old name of the token is not needed twice.
_NOT_PASSED = ("USER", "HOME", "SHELL", "JPY_API_TOKEN")


def job_environment(spawner: PortalSpawner, request: LaunchRequest, home: str) -> dict[str, str]:
    """Variables for sbatch's process, from which the job takes its own (sbatch(1) --export)."""
    environment = request.environment
    session = {
        key: value
        for key, value in spawner.get_env().items()
        if key not in _NOT_PASSED and not key.startswith("JUPYTERHUB_SSL_")
    }
    session |= environment.variables
    session["PYTHONUSERBASE"] = user_base(environment, home)
    session["PORTAL_ENVIRONMENT"] = environment.name
    session |= report_environment(spawner)
    session |= tensorboard_environment(spawner, environment)
    if request.tensorboard:
        session["PORTAL_TENSORBOARD"] = json.dumps(request.tensorboard)
        session["JUPYTERHUB_DEFAULT_URL"] = PAGE
    if environment.kernels:
        session["PORTAL_KERNELS"] = json.dumps([one.model_dump() for one in environment.kernels])
    if is_beside(environment):
        session["PORTAL_CONTAINER"] = kernel_container(
            environment,
            request.resources,
            home=home,
            apptainer=spawner.apptainer,
            binds=spawner.container_binds(),
        )
    if spawner.kept_variables:
        session["PORTAL_KEPT_VARIABLES"] = " ".join(spawner.kept_variables)
    env = {f"APPTAINERENV_{key}": str(value) for key, value in session.items()}
    env["PORTAL_KIND"] = session_kind(environment)
    images = spawner.shared.images
    env |= image_environment(
        environment,
        apptainer=spawner.apptainer,
        verify=images.verify,
        keyring=images.keyring,
        node_copy=node_copy(environment, images.node_cache),
        account=images.service_account or pwd.getpwuid(os.geteuid()).pw_name,
    )
    env["PORTAL_UMASK"] = spawner.session_umask
    if environment.kind is Kind.MODULES:
        env["PORTAL_MODULES"] = " ".join(environment.modules)
    if spawner.cert_paths:
        # The Hub's account cannot write into homes: the certificate travels with the job.
        for name, key in (("KEY", "keyfile"), ("CERT", "certfile"), ("CA", "cafile")):
            content = Path(spawner.cert_paths[key]).read_bytes()
            env[f"PORTAL_SSL_{name}"] = base64.b64encode(content).decode()
    return env
