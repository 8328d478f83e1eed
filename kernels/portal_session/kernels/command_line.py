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
import signal
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from jupyter_client.provisioning import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from .container import HERE, Container
from .job_specs import begin, use_unix_sockets
from .shell import shell_command

JOB_ID = "PORTAL_JOB_ID"
PROVISIONER = "portal-provisioner"  # an entry point of this package
NAME = "PORTAL_KERNEL_NAME"  # in a Python kernel: its kernelspec's name
KEPT = "PORTAL_KEPT_VARIABLES"  # names that are kept nevertheless, separated by spaces

# IPython's startup file, which registers the magic %%gpu.
_STARTUP = Path(__file__).parents[1] / "job_kernels" / "magic" / "startup.py"
# Its modules are those that notebooks and scripts import in a run: portal_metrics logs what is
# shown, portal_checkpoint resumes a loop.
LIBRARY = Path(__file__).parents[1] / "runs" / "library"

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


class SessionProvisioner(LocalProvisioner):
    """Provisioner that starts kernels as jupyter_client does, in the container if one is beside
    this server."""

    _in_container = False

    def _finalize_env(self, env: dict[str, str]) -> None:
        super()._finalize_env(env)
        clean = for_commands(env)
        env.clear()
        env.update(clean)

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Prepare a launch as LocalProvisioner does."""
        use_unix_sockets(self.parent, self.kernel_spec, self.kernel_id)
        await begin(self.parent, self.kernel_spec, self.kernel_id)
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Launch a kernel as LocalProvisioner does; ``cmd`` is the kernelspec's argv."""
        container = Container.of(os.environ)
        spec = self.kernel_spec
        if spec.language == "python" and container is None and not spec.metadata.get(HERE):
            _add_startup(kwargs["env"], str(getattr(self.parent, "kernel_name", "")))
        if container is not None and not spec.metadata.get(HERE):
            cmd = container.command(cmd, str(kwargs.get("cwd") or ""))
            env = container.environment(kwargs["env"], tuple(spec.env))
            for name in spec.env:  # meant for the kernel, not for Apptainer itself
                env.pop(name, None)
                if name in os.environ:
                    env[name] = os.environ[name]
            kwargs["env"] = env
            self._in_container = True
        return await super().launch_kernel(cmd, **kwargs)

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel's whole process group; an interrupt not to Apptainer itself,
        which passes signals on, so that the kernel would receive it twice."""
        if signum != signal.SIGINT or not self._in_container or not self.pgid or not self.process:
            await super().send_signal(signum)
            return
        for number in _of_group(self.pgid):
            if number != self.process.pid:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(number, signum)


def _add_startup(env: MutableMapping[str, str], name: str) -> None:
    """Make IPython run the portal's startup file, and then the user's own (`magic.startup`)."""
    own = env.get("PYTHONSTARTUP", "")
    if own:
        env["PORTAL_PYTHONSTARTUP"] = own
    env["PYTHONSTARTUP"] = str(_STARTUP)
    env[NAME] = name
    _add_library(env)


def _add_library(env: MutableMapping[str, str]) -> None:
    """Make ``import portal_metrics`` work, in a Python that may lack this package too."""
    parts = [part for part in env.get("PYTHONPATH", "").split(os.pathsep) if part]
    if str(LIBRARY) not in parts:
        env["PYTHONPATH"] = os.pathsep.join([*parts, str(LIBRARY)])


def _of_group(group: int) -> Iterator[int]:
    """Yield the processes of a process group, from /proc/PID/stat (proc(5))."""
    for process in Path("/proc").glob("[0-9]*"):  # not "/stat": the process may end meanwhile
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in parentheses may hold anything, spaces and parentheses included.
            stat = (process / "stat").read_text(errors="replace").rpartition(")")[2]
            if int(stat.split()[2]) == group:
                yield int(process.name)


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension, after jupyter_server's terminals (extensions load by name)."""
    kernels = KernelProvisionerFactory.instance(parent=app)
    if kernels.default_provisioner_name == "local-provisioner":
        # Not by its environment variable, which a Jupyter in another environment would inherit.
        kernels.default_provisioner_name = PROVISIONER
    terminals = app.web_app.settings.get("terminal_manager")
    if terminals is not None:
        container = Container.of(os.environ)
        if container is not None:
            terminals.shell_command = container.shell()
        elif not getattr(app, "terminado_settings", {}).get("shell_command"):  # else the site's
            terminals.shell_command = shell_command(os.environ)
        terminals.make_term_env = _clean(terminals.make_term_env, container)


def _clean(
    make: Callable[..., dict[str, str]], container: Container | None = None
) -> Callable[..., dict[str, str]]:
    """Wrap terminado's ``make_term_env``, so that new terminals get a cleaned environment."""

    def make_term_env(*args: Any, **kwargs: Any) -> dict[str, str]:
        clean = for_commands(make(*args, **kwargs))
        if container is not None:
            return container.environment(clean)
        _add_library(clean)
        return clean

    return make_term_env
