"""Arguments for sbatch and Apptainer: the job's options, the constant script's path, and a
session's command, which is Apptainer's argv for containers and the interpreter's for the others.

The script (``deploy/session.sh``) is the same file for every session. All that differs is passed
as arguments, never as text that a shell or sbatch reads: ``#SBATCH`` lines take no quoting that
would protect them (sbatch(1)).

No value reaches a shell: this is the argv that the job script executes. It contains no secrets
(``ps`` shows it); those are in the environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import ConfigurationError
from ..gpus import DEFAULT as DEFAULT_VENDOR
from ..gpus import GpuVendor
from ..models.catalog.environment import Bind, Environment, EnvironmentKind, Server
from ..models.session.resources import Resources
from ..paths import data_path
from .fields import sbatch_pairs

# -I: the server ignores the user's site-packages, PYTHONPATH and working directory, so nothing
# that a person installs can break it. The flag is not inherited: kernels see all of it.
SESSION = "portal_session"
PYTHON = "{python}"  # in a command: the interpreter of the environment
# PORTAL_KIND of deploy/session.sh for a server beside the container.
BESIDE = "beside"
# Digest and recipe, as builds name their images.
_BY_CONTENT = re.compile(r"^[0-9a-f]{64}-[0-9a-f]{10}$")


def session_script() -> Path:
    """Return the absolute path of the constant job script; every user must be able to read it."""
    return data_path("deploy") / "session.sh"


def sbatch_options(
    resources: Resources, *, name: str, output: str, directory: str, comment: str = ""
) -> list[str]:
    """Return sbatch's options for ``resources``, each one argument (``--key=value``).

    ``name`` is the job's name, ``output`` the log file's pattern (``%j`` is the job id) and
    ``directory`` the working directory. GPUs, CPUs and memory are per node. The job has its node's
    limits (of open files, of locked memory, which RDMA needs), not those of the Hub's host:
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
    """Return PYTHONUSERBASE of a person's environment; deleting it resets what they installed."""
    return f"{home}/.portal/{environment.name}"


def session_kind(environment: Environment) -> str:
    """Return the kind for deploy/session.sh, by which it knows where its variables go."""
    return BESIDE if is_beside(environment) else str(environment.kind)


def is_beside(environment: Environment) -> bool:
    """Return True if its server runs on the node, and only its kernels in the container."""
    return environment.kind is EnvironmentKind.CONTAINER and environment.server is Server.BESIDE


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
    """Return the argv that starts a session's server in ``environment``.

    ``server`` replaces the default server command (``python3 -I -m portal_session``); ``binds``
    are the site's bind mounts, before the environment's own. ``beside``: the virtual environment
    on the nodes for servers beside their container; raises ConfigurationError if one is needed and
    it is empty. ``module``: another program of the session's package, for tests of environments.
    ``isolated``: nothing of the site is seen in it (Kind.isolated); the site's binds are left out.
    ``vendor``: of the GPUs that the job gets.
    """
    inside = environment.kind is EnvironmentKind.CONTAINER and not is_beside(environment)
    if inside:
        python = environment.python or "python3"
    else:
        python = f"{beside_of(environment, beside)}/bin/python3"
    program = server or (PYTHON, "-I", "-m", module)
    command = [*(python if word == PYTHON else word for word in program), *args]
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
    """Return JSON for a server beside its container, which starts kernels and terminals in it:
    ``exec``, the argv of ``apptainer exec`` up to the image; ``image``; and ``roots``, the folders
    that the container shares with the node (portal_session/kernels/container.py)."""
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
    """Return a session's environment variables, whoever starts it: the catalog's own, the place of
    the person's packages, the kernels, and the vendor of its GPUs."""
    variables = dict(environment.variables)
    variables["PYTHONUSERBASE"] = user_base(environment, home)
    variables["PORTAL_ENVIRONMENT"] = environment.name
    if environment.digest:
        variables["PORTAL_IMAGE_DIGEST"] = environment.digest
    if environment.kernels:
        variables["PORTAL_KERNELS"] = json.dumps(
            [kernel.model_dump() for kernel in environment.kernels]
        )
    if environment.starters:
        variables["PORTAL_STARTERS"] = "1"
    if is_beside(environment):
        variables["PORTAL_CONTAINER"] = kernel_container(
            environment, resources, home=home, apptainer=apptainer, binds=binds, vendor=vendor
        )
    if vendor is not DEFAULT_VENDOR:
        variables["PORTAL_GPU_VENDOR"] = vendor.name
    return variables


def script_environment(
    environment: Environment,
    variables: Mapping[str, object],
    vendor: GpuVendor = DEFAULT_VENDOR,
) -> dict[str, str]:
    """Return the environment of deploy/session.sh: the session's ``variables``, under the names by
    which they reach a container, and those of the script itself."""
    env = {f"APPTAINERENV_{name}": str(value) for name, value in variables.items()}
    env["PORTAL_KIND"] = session_kind(environment)
    if environment.kind is EnvironmentKind.MODULES:
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
    """Return the variables for deploy/session.sh to check a container's image; {} for other kinds.

    ``verify``: no session without a good signature of one of the ``keys`` (a file); ``node_copy``:
    the folder that replaces the image if it exists and only ``account`` or root can write there.
    """
    if environment.kind is not EnvironmentKind.CONTAINER:
        return {}
    variables = {"PORTAL_IMAGE": environment.image or "", "PORTAL_APPTAINER": apptainer}
    if verify:
        variables |= {"PORTAL_VERIFY": "1", "PORTAL_KEYS": keys}
    if node_copy:
        variables |= {"PORTAL_NODE_COPY": node_copy, "PORTAL_IMAGE_ACCOUNT": account}
    return variables


def node_copy(environment: Environment, folder: str) -> str:
    """Return the path of a node's unpacked copy of the image, below ``folder``
    (c.Images.node_cache): a folder with the image's name. "" for an image that no build named by
    its content, since its copy could be an older one's."""
    name, dot, ending = (environment.image or "").rpartition("/")[2].rpartition(".")
    if not folder or f"{dot}{ending}" != ".sif" or not _BY_CONTENT.match(name):
        return ""
    return f"{folder.rstrip('/')}/{name}"


def beside_of(environment: Environment, beside: str) -> str:
    """Return the virtual environment on the nodes that holds this environment's server."""
    if not is_beside(environment):
        return environment.path or ""
    if not beside:
        raise ConfigurationError(
            f"The server of '{environment.title}' runs outside its container, but this site "
            "has no environment for that. An admin must set c.Images.beside."
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
    """Return the argv of ``apptainer exec`` up to the image (apptainer-exec(1)).

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
    """Return the argv of ``apptainer exec`` for an isolated space, up to the image: whoever is let
    into the session finds the space's folder there, and nothing else of its owner.

    ``--containall`` gives it processes, shared memory, a minimal /dev and temporary folders of its
    own, and leaves out every bind of the site, in apptainer.conf too. Only the environment's binds
    are mounted (which the space has made read-only). The job script creates and names home and
    temporary folders (APPTAINER_HOME, APPTAINER_WORKDIR), and names the exchange
    (APPTAINER_BINDPATH); without these, Apptainer takes empty ones that are gone afterwards.
    """
    argv = [apptainer, "exec", "--containall", "--cleanenv", "--no-eval"]
    argv += ["--no-mount", "cwd,hostfs", "--pwd", home]
    if resources.gpus:
        argv.append(vendor.container_flag)
    for bind in environment.binds:
        argv += ["--bind", f"{bind.source}:{bind.target or bind.source}:ro"]
    return [*argv, environment.image or ""]
