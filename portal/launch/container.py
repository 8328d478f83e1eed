"""Arguments for sbatch and Apptainer: the job's options, the constant script's place, and the
command of a session, which is Apptainer's argv for containers and the interpreter's for the others.

The script (``deploy/session.sh``) is the same file for every session. What differs travels as
arguments, never as text that a shell or sbatch reads: ``#SBATCH`` lines take no quoting that would
protect them (sbatch(1)).

No value reaches a shell: this is the argv that the job script executes. Nothing secret is in it
(``ps`` shows it); the environment carries what must not be seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import ConfigurationError
from ..gpus import DEFAULT as DEFAULT_VENDOR
from ..gpus import GpuVendor
from ..models.catalog.environment import Bind, Environment, Kind, Server
from ..models.session.resources import Resources
from ..where import data_path
from .fields import sbatch_pairs

# -I: the server ignores the user's site-packages, PYTHONPATH and working directory, so nothing
# that a person installs can break it. The flag is not inherited: kernels see all of it.
SESSION = "portal_session"
# PORTAL_KIND of deploy/session.sh for a server beside the container.
BESIDE = "beside"
# Digest and recipe, as builds name their images.
_BY_CONTENT = re.compile(r"^[0-9a-f]{64}-[0-9a-f]{10}$")


def session_script() -> Path:
    """The absolute path of the constant job script; every user must be able to read it."""
    return data_path("deploy") / "session.sh"


def sbatch_options(
    resources: Resources, *, name: str, output: str, directory: str, comment: str = ""
) -> list[str]:
    """sbatch's options for ``resources``, each one argument (``--key=value``).

    ``name`` is the job's name, ``output`` the log file's pattern (``%j`` is the job id) and
    ``directory`` the working directory. GPUs, CPUs and memory are per node. The job has its node's
    limits (of open files, of locked memory, which RDMA needs) and not those of the Hub's host:
    ``--propagate`` of sbatch(1).
    """
    options = [
        f"--job-name={name}",
        f"--output={output}",
        "--open-mode=append",
        f"--chdir={directory}",
        "--no-requeue",
        "--export=ALL",
        "--propagate=NONE",
        "--ntasks-per-node=1",
        *sbatch_pairs(resources),
    ]
    return [*options, f"--comment={comment}"] if comment else options


def user_base(environment: Environment, home: str) -> str:
    """The PYTHONUSERBASE of one person's environment: deleting it resets what they installed."""
    return f"{home}/.portal/{environment.name}"


def session_kind(environment: Environment) -> str:
    """What deploy/session.sh is told: where its variables go."""
    return BESIDE if is_beside(environment) else str(environment.kind)


def is_beside(environment: Environment) -> bool:
    """Whether its server runs on the node, and only its kernels in the container."""
    return environment.kind is Kind.CONTAINER and environment.server is Server.BESIDE


def session_command(
    environment: Environment,
    resources: Resources,
    *,
    home: str,
    apptainer: str,
    binds: Sequence[Bind] = (),
    server: Sequence[str] = (),
    args: Sequence[str] = (),
    beside: str = "",
    module: str = SESSION,
    isolated: bool = False,
    vendor: GpuVendor = DEFAULT_VENDOR,
) -> list[str]:
    """The argv that starts a session's server in ``environment``.

    ``server`` replaces the default server command (``python3 -I -m portal_session``); ``binds``
    are the site's, before the environment's own. ``beside``: the virtual environment on the nodes
    for servers beside their container; raises ConfigurationError where one is needed and it is
    empty. ``module``: another program of the session's package, for tests of environments.
    ``isolated``: nothing of the site is seen in it (Kind.isolated); the site's binds are left out.
    ``vendor``: of the GPUs that the job gets.
    """
    inside = environment.kind is Kind.CONTAINER and not is_beside(environment)
    if inside:
        python = environment.python or "python3"
    else:
        python = f"{beside_of(environment, beside)}/bin/python3"
    command = [*(server or (python, "-I", "-m", module)), *args]
    if isolated:
        return [*_isolated(environment, resources, home, apptainer, vendor), *command]
    if inside:
        return [*_apptainer(environment, resources, home, apptainer, binds, vendor), *command]
    return command


def kernel_container(
    environment: Environment,
    resources: Resources,
    *,
    home: str,
    apptainer: str,
    binds: Sequence[Bind] = (),
    vendor: GpuVendor = DEFAULT_VENDOR,
) -> str:
    """JSON for a server beside its container, of which it starts kernels and terminals in it:
    ``exec``, the argv of ``apptainer exec`` up to the image; ``image``; and ``roots``, the folders
    that the container has in common with the node (portal_session/kernels/container.py)."""
    *exec_, image = _apptainer(environment, resources, home, apptainer, binds, vendor)
    roots = [home, *(bind.target or bind.source for bind in (*binds, *environment.binds))]
    return json.dumps({"exec": exec_, "image": image, "roots": roots})


def session_variables(
    environment: Environment,
    resources: Resources,
    *,
    home: str,
    apptainer: str,
    binds: Sequence[Bind] = (),
    vendor: GpuVendor = DEFAULT_VENDOR,
) -> dict[str, str]:
    """What a session finds in its environment, whoever starts it: the catalog's own variables,
    where the person's things are, which kernels there are, and whose GPUs it has."""
    found = dict(environment.variables)
    found["PYTHONUSERBASE"] = user_base(environment, home)
    found["PORTAL_ENVIRONMENT"] = environment.name
    if environment.kernels:
        found["PORTAL_KERNELS"] = json.dumps([one.model_dump() for one in environment.kernels])
    if environment.starters:
        found["PORTAL_STARTERS"] = "1"
    if is_beside(environment):
        found["PORTAL_CONTAINER"] = kernel_container(
            environment, resources, home=home, apptainer=apptainer, binds=binds, vendor=vendor
        )
    if vendor is not DEFAULT_VENDOR:
        found["PORTAL_GPU_VENDOR"] = vendor.name
    return found


def script_environment(
    environment: Environment,
    variables: Mapping[str, object],
    vendor: GpuVendor = DEFAULT_VENDOR,
) -> dict[str, str]:
    """For deploy/session.sh: the session's ``variables``, under the names by which they reach a
    container, and what the script itself is told."""
    env = {f"APPTAINERENV_{name}": str(value) for name, value in variables.items()}
    env["PORTAL_KIND"] = session_kind(environment)
    if environment.kind is Kind.MODULES:
        env["PORTAL_MODULES"] = " ".join(environment.modules)
    if vendor is not DEFAULT_VENDOR:
        env["PORTAL_GPU_VARIABLES"] = " ".join(vendor.variables)
    return env


def image_environment(
    environment: Environment,
    *,
    apptainer: str,
    verify: bool = False,
    keys: str = "",
    node_copy: str = "",
    account: str = "",
) -> dict[str, str]:
    """What deploy/session.sh looks at before a container starts; {} for the other kinds.

    ``verify``: no session without a good signature of one of the ``keys`` (a file); ``node_copy``:
    the folder that takes the image's place where it is there and is ``account``'s or root's alone.
    """
    if environment.kind is not Kind.CONTAINER:
        return {}
    found = {"PORTAL_IMAGE": environment.image or "", "PORTAL_APPTAINER": apptainer}
    if verify:
        found |= {"PORTAL_VERIFY": "1", "PORTAL_KEYS": keys}
    if node_copy:
        found |= {"PORTAL_NODE_COPY": node_copy, "PORTAL_IMAGE_ACCOUNT": account}
    return found


def node_copy(environment: Environment, folder: str) -> str:
    """Where a node's unpacked copy of the image is, below ``folder`` (c.Images.node_cache): a
    folder with the image's name. "" for an image that no build named by its content, since its
    copy could be an older one's."""
    name, dot, ending = (environment.image or "").rpartition("/")[2].rpartition(".")
    if not folder or f"{dot}{ending}" != ".sif" or not _BY_CONTENT.match(name):
        return ""
    return f"{folder.rstrip('/')}/{name}"


def beside_of(environment: Environment, beside: str) -> str:
    """The virtual environment on the nodes that holds this one's server."""
    if not is_beside(environment):
        return environment.path or ""
    if not beside:
        raise ConfigurationError(
            f"The server of '{environment.title}' runs beside its container, and this site has no "
            "environment for that: an admin sets c.Images.beside."
        )
    return beside


def _apptainer(
    environment: Environment,
    resources: Resources,
    home: str,
    apptainer: str,
    binds: Sequence[Bind],
    vendor: GpuVendor,
) -> list[str]:
    """``apptainer exec`` up to the image (apptainer-exec(1)).

    ``--cleanenv`` keeps the node's environment out; ``--no-eval`` keeps Apptainer from evaluating
    ``$(…)`` in the values that are passed through APPTAINERENV_.
    """
    argv = [apptainer, "exec", "--cleanenv", "--no-eval", "--no-mount", "cwd", "--pwd", home]
    if resources.gpus:
        argv.append(vendor.container_flag)
    for bind in (*binds, *environment.binds):
        mode = ":ro" if bind.read_only else ""
        argv += ["--bind", f"{bind.source}:{bind.target or bind.source}{mode}"]
    return [*argv, environment.image or ""]


def _isolated(
    environment: Environment,
    resources: Resources,
    home: str,
    apptainer: str,
    vendor: GpuVendor,
) -> list[str]:
    """``apptainer exec`` for a course, up to the image: whoever is let into the session finds the
    course's folder there, and nothing else of its owner.

    ``--containall`` gives it processes, shared memory, a minimal /dev and temporary folders of its
    own, and leaves out every bind of the site, in apptainer.conf too. What is bound is the
    environment's (which the course has made read-only). Home and temporary folders are the job
    script's to say, which makes them (APPTAINER_HOME, APPTAINER_WORKDIR), and so is the exchange
    (APPTAINER_BINDPATH); without these, Apptainer takes empty ones that are gone afterwards.
    """
    argv = [apptainer, "exec", "--containall", "--cleanenv", "--no-eval"]
    argv += ["--no-mount", "cwd,hostfs", "--pwd", home]
    if resources.gpus:
        argv.append(vendor.container_flag)
    for bind in environment.binds:
        argv += ["--bind", f"{bind.source}:{bind.target or bind.source}:ro"]
    return [*argv, environment.image or ""]
