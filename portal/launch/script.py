"""The job: the constant script's place and sbatch's options.

The script (``deploy/session.sh``) is the same file for every session. What differs travels as
arguments, never as text that a shell or sbatch reads: ``#SBATCH`` lines take no quoting that
would protect them (sbatch(1)).
"""

from __future__ import annotations

from pathlib import Path

from ..models.resources import Resources
from ..where import data_path
from .fields import sbatch_pairs


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
