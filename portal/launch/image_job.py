"""The job that builds, tests or unpacks an image: sbatch's argv and the job's environment.

The same constant script as a session's starts ``python -m portal.images.job``, which reads its
task from one environment variable. That contains no secrets, and nothing of it is evaluated.
"""

from __future__ import annotations

from ..models.catalog.image_job import ImageJob
from ..models.session.resources import Resources
from .container import sbatch_options, session_script

VARIABLE = "PORTAL_IMAGE_JOB"
MODULE = "portal.images.job"


def image_job_command(
    job: ImageJob,
    resources: Resources,
    *,
    name: str,
    output: str,
    directory: str,
    python: str,
    comment: str = "",
) -> tuple[list[str], dict[str, str]]:
    """Return the argv for ``Cluster.submit`` and the variables that go with it.

    ``output`` is the log file, which exists already and is appended to; ``directory`` the job's
    working directory; ``python`` the interpreter on the nodes that has the portal.
    """
    # -I: neither the account's own packages nor the working directory can change the program.
    command = [python, "-I", "-m", MODULE]
    options = sbatch_options(
        resources, name=name, output=output, directory=directory, comment=comment
    )
    # A description can be longer than a variable may be (execve(2), 128 KiB), and no job needs it.
    task = job.model_copy(
        update={"environment": job.environment.model_copy(update={"description": ""})}
    )
    variables = {
        VARIABLE: task.model_dump_json(exclude_defaults=True),
        "PORTAL_KIND": "image",
        "PORTAL_UMASK": "0022",  # what is made is read by every user
    }
    return ["sbatch", *options, str(session_script()), *command], variables
