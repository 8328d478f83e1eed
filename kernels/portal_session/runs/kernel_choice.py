"""Kernel with which a notebook is executed in a run."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from ..kernels.job_specs import FOLDER, METADATA
from . import RunError
from .source import Source, kernel_of

USUAL = "python3"


def kernels_here(*, of_user: bool = False) -> Collection[str]:
    """Return the names of the kernels that this session has; ``of_user``: only those in the user's
    own folder, which all environments have."""
    from ..kernels.kernels import SessionKernelSpecs  # half a second that scripts do not need

    specs = SessionKernelSpecs()
    folders = specs.find_kernel_specs()
    if not of_user:
        return folders.keys()
    own = Path(specs.user_kernel_dir)
    return [name for name, folder in folders.items() if own in Path(folder).parents]


def check_kernel(kernel: str, kernels: Collection[str]) -> None:
    """Raise RunError for a ``kernel`` that is not one of ``kernels``, those of an environment. ():
    they are not known. A script has "" instead of a kernel."""
    if kernel and kernels and kernel.lower() not in {name.lower() for name in kernels}:
        raise RunError(
            f"The environment has no kernel '{kernel}'. Its kernels: "
            f"{', '.join(name for name in kernels if not name.startswith('job-'))}. Choose one "
            "with --kernel, or another environment."
        )


def kernel_for(source: Source, environ: Mapping[str, str]) -> str:
    """Return the name of the notebook's kernelspec; of a kernel in a job of its own, that of the
    environment's kernel behind it; "" for a script. Raises RunError."""
    if source.notebook is None:
        return ""
    name = kernel_of(source.notebook) or USUAL
    folder = environ.get(FOLDER, "")
    if not folder or "/" in name or name in (".", ".."):
        return name
    try:
        spec = json.loads((Path(folder) / "kernels" / name / "kernel.json").read_text())
        return str(spec["metadata"][METADATA]["kernel"])
    except OSError:
        if name.startswith("job-"):
            raise RunError(
                f"The notebook's kernel '{name}' is no longer offered. Choose its kernel with "
                "--kernel, such as --kernel python3."
            ) from None
        return name
    except (ValueError, KeyError, TypeError):
        return name
