"""Environment variables of the programs of a run, and of those that log metrics."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from ..kernels.environment import LIBRARY, add_library, for_commands
from .parameters import Scalar, written

METRICS = "PORTAL_METRICS"  # path of the file with a point's metrics
NAME = "PORTAL_RUN_NAME"
FROZEN, SOURCE = "PORTAL_FROZEN_SOURCE", "PORTAL_SOURCE"  # of a script: `library.portal_main`
POINT = "PORTAL_RUN_POINT"  # the point's number, from 0
PARAMETERS = "PORTAL_PARAMETERS"  # of a script: JSON, by name


def of_program(
    environ: Mapping[str, str],
    *,
    name: str,
    number: int,
    metrics: Path,
    values: Mapping[str, Scalar] | None = None,
    more: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the variables of a point's kernel or script: those of the job without its secrets,
    the place of its metrics, and the ``values`` of a script's parameters. ``more``: further
    variables."""
    variables = for_commands(environ)
    variables.update({METRICS: str(metrics), NAME: name, POINT: str(number), **(more or {})})
    if values is not None:
        variables[PARAMETERS] = json.dumps(values, allow_nan=False)
    # Not the source's folder: a sitecustomize.py there, perhaps of somebody else, would be run.
    own = variables.get("PYTHONPATH", "").split(os.pathsep)
    parts = [*(part for part in own if part != str(LIBRARY)), str(LIBRARY)]
    variables["PYTHONPATH"] = os.pathsep.join(part for part in parts if part)
    add_library(variables)
    return variables


def arguments(values: Mapping[str, Scalar], typed: Mapping[str, str]) -> list[str]:
    """Return the arguments of a script: ``--name=value``, as they were ``typed``; else as JSON has
    what is no text."""
    return [f"--{name}={typed.get(name, written(value))}" for name, value in values.items()]
