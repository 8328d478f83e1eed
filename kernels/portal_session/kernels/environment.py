"""Environment of terminals and kernels, and thereby of the jobs that are submitted from them.

``sbatch`` and ``srun`` pass on their environment (``--export=ALL``), and read their own defaults
from it (sbatch(1), "INPUT ENVIRONMENT VARIABLES"). With the variables of the session's own job in
it, ``srun`` starts a step inside the session instead of a job, ``--mem`` and ``--cpus-per-task``
of the session apply to everything else, and a script that asks for ``--mem-per-cpu`` is refused.
So they are removed, and with them the session's secrets. The server itself keeps them.

The same applies in kernels, also for those who submit nothing: PyTorch Lightning takes
SLURM_NTASKS and Open MPI takes SLURM_JOBID for a start by ``srun``, and both fail in a notebook.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any, NamedTuple

from .container import HERE, Container
from .shared_folder import VARIABLE as PROJECT
from .shared_folder import without_shared_files

JOB_ID = "PORTAL_JOB_ID"
NAME = "PORTAL_KERNEL_NAME"  # in a Python kernel: its kernelspec's name
KEPT = "PORTAL_KEPT_VARIABLES"  # names that are kept nevertheless, separated by spaces

# IPython's startup file, which registers the magic %%gpu.
_STARTUP = Path(__file__).parents[1] / "job_kernels" / "magic" / "startup.py"
# Its modules are those that notebooks and scripts import in a run: portal_metrics logs what is
# shown, portal_checkpoint resumes a loop.
LIBRARY = Path(__file__).parents[1] / "runs" / "library"
_PYTHON_STARTUP = "PYTHONSTARTUP"
_LOOPBACK = Path(__file__).parent / "loopback" / "__main__.py"
# By these, kernels that Jupyter's programs start listen on Unix sockets (`local_kernels`).
_SETTINGS = Path(__file__).parent / "settings"

# How Slurm's commands find the cluster and write times: the node's and the person's, not the job's.
_OF_COMMANDS = frozenset({"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT", "SLURM_BITSTR_LEN"})
_OF_THE_JOB = ("SLURM_",)  # not SLURMD_NODENAME, which is the node; each job gets its own
# The whole environment of a job is stored by slurmctld, and at some sites by slurmdbd.
_SECRETS = frozenset({"JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN", "JUPYTER_TOKEN", KEPT})
# Variables that Apptainer would apply in a job that starts a container of its own; and one by
# which profiles of a site recognize a non-interactive shell.
_OF_THE_CONTAINER = ("APPTAINERENV_", "SINGULARITYENV_")
_MISLEADING = frozenset({"APPTAINER_BIND", "SINGULARITY_BIND", "ENVIRONMENT"})


def for_commands(environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``environ`` without what belongs to the session alone. PORTAL_JOB_ID names the
    session's job."""
    exempt = {*environ.get(KEPT, "").split(), *_OF_COMMANDS}
    variables = {
        name: value
        for name, value in environ.items()
        if name in exempt
        or not (
            name.startswith((*_OF_THE_JOB, *_OF_THE_CONTAINER))
            or name in _SECRETS
            or name in _MISLEADING
        )
    }
    if environ.get("SLURM_JOB_ID"):
        variables[JOB_ID] = environ["SLURM_JOB_ID"]
    return variables


class Command(NamedTuple):
    """Command of a kernel, and its variables. ``in_container``: in the one beside this server."""

    argv: list[str]
    env: dict[str, str]
    in_container: bool


def command_of(
    spec: Any, name: str, argv: list[str], env: dict[str, str], cwd: str, sockets: str = ""
) -> Command:
    """Return the command of a kernel, in the container if one is beside this server. ``spec``: its
    kernelspec, which has the name ``name``; ``argv``, ``env``: as that wants them; ``sockets``: the
    folder of its sockets."""
    container = Container.from_environ(os.environ)
    names = tuple(spec.env)
    if os.environ.get(PROJECT):
        argv, added = without_shared_files(spec.language, argv, env)
        names += added
    if spec.metadata.get(HERE):
        return Command(argv, env, False)
    if container is None:
        if spec.language == "python":
            add_startup(env, name)
        return Command(argv, env, False)
    if sockets and spec.language == "python" and _PYTHON_STARTUP not in names:
        # It knows no other file of this package.
        env, names = {**env, _PYTHON_STARTUP: _copied_to(sockets)}, (*names, _PYTHON_STARTUP)
    inside = container.environment(env, names)
    for variable in spec.env:  # meant for the kernel, not for Apptainer itself
        inside.pop(variable, None)
        if variable in os.environ:
            inside[variable] = os.environ[variable]
    return Command(container.command(argv, cwd, sockets), inside, True)


def _copied_to(folder: str) -> str:
    """Copy the program of `loopback` to a folder that the container sees; return its path."""
    place = Path(folder, _LOOPBACK.parent.name, _LOOPBACK.name)
    place.parent.mkdir(mode=0o700, exist_ok=True)
    shutil.copyfile(_LOOPBACK, place)
    return str(place)


def interrupt_inside(group: int, apptainer: int) -> None:
    """Interrupt a process group, but not Apptainer itself, which passes signals on, so that the
    kernel would receive it twice."""
    for number in _of_group(group):
        if number != apptainer:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGINT)


def add_startup(env: MutableMapping[str, str], name: str) -> None:
    """Make IPython run the portal's startup file, and then the user's own (`magic.startup`)."""
    own = env.get(_PYTHON_STARTUP, "")
    if own:
        env["PORTAL_PYTHONSTARTUP"] = own
    env[_PYTHON_STARTUP] = str(_STARTUP)
    env[NAME] = name
    add_library(env)


def add_library(env: MutableMapping[str, str]) -> None:
    """Make ``import portal_metrics`` work, in a Python that may lack this package too, and give
    Jupyter's programs their settings."""
    for name, folder in (("PYTHONPATH", LIBRARY), ("JUPYTER_CONFIG_PATH", _SETTINGS)):
        parts = [part for part in env.get(name, "").split(os.pathsep) if part]
        if str(folder) not in parts:
            env[name] = os.pathsep.join([*parts, str(folder)])


def _of_group(group: int) -> Iterator[int]:
    """Yield the processes of a process group, from /proc/PID/stat (proc(5))."""
    for process in Path("/proc").glob("[0-9]*"):  # not "/stat": the process may end meanwhile
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in parentheses may hold anything, spaces and parentheses included.
            stat = (process / "stat").read_text(errors="replace").rpartition(")")[2]
            if int(stat.split()[2]) == group:
                yield int(process.name)
