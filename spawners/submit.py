"""A launch request becomes a job."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from portal.launch.container import course_home, session_command
from portal.launch.request import LaunchRequest
from portal.launch.script import sbatch_options, session_script

from .environ import job_environment

if TYPE_CHECKING:
    from .slurm import PortalSpawner


async def submit(
    spawner: PortalSpawner, request: LaunchRequest, log_name: str, token: str = ""
) -> str:
    """Submit the job of a session as its owner; returns its id.

    ``log_name``: its log in the folder of logs. ``token``: of the server that the job will start,
    where that is not the spawner's own. Raises SlurmRefused, SlurmUnavailable, NotAllowed.
    """
    home = await spawner.home()
    command = session_command(
        request.environment,
        request.resources,
        home=course_home(spawner.account) if request.course else home,
        apptainer=spawner.apptainer,
        binds=spawner.container_binds(),
        server=spawner.cmd,
        args=spawner.get_args(),
        beside=spawner.shared.images.beside,
        course=request.course,
        vendor=spawner.shared.gpus.vendor_for(request.resources.gpu_type),
    )
    options = sbatch_options(
        request.resources,
        name=f"portal-{request.environment.name}",
        output=f"{spawner.log_directory}/{log_name}",
        directory=home,
        comment=f"portal:{request.environment.name}:{spawner.name}",
    )
    with _about_to_start(spawner, token):
        env = job_environment(spawner, request, home)
    return await spawner.shared.cluster.submit(
        ["sbatch", *options, str(session_script()), *command], env=env, user=spawner.user.name
    )


@contextlib.contextmanager
def _about_to_start(spawner: PortalSpawner, token: str) -> Iterator[None]:
    """The spawner as it is before its server has an address, and with this server's token:
    JupyterHub's ``get_env`` reads all of that from it. Nothing may be awaited meanwhile."""
    before = spawner.api_token, spawner.ip, spawner.port
    spawner.api_token = token or spawner.api_token
    spawner.ip, spawner.port = spawner.listen_address, 0
    try:
        yield
    finally:
        spawner.api_token, spawner.ip, spawner.port = before
