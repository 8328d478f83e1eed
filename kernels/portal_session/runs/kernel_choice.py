"""Kernel with which a notebook is executed in a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ..kernels.job_specs import FOLDER, METADATA
from . import RunError
from .source import Source, kernel_of

USUAL = "python3"


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
