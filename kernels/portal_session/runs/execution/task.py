"""Task of a run's array job: the point that it executes, as run.json in the run's folder has it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from .. import RunError
from ..disk import reason
from ..parameters import Scalar
from ..plan import FILE

VARIABLE = "PORTAL_RUN"  # JSON: "id", "name", "folder", "points", "resumes", "notice"
_LARGEST = 128 * 1024 * 1024  # bytes of run.json
_TRIES = 1000  # attempts of a point


class Task(NamedTuple):
    """Task of a run. ``number``: of the point, from 0; ``attempt``: from 1; ``job``: its Slurm job,
    such as "123_4"; ``folder``: of the run; ``resumes``: how many times the point may be resumed;
    ``notice``: seconds between Slurm's signal and the end of the job's time, at least."""

    id: str
    name: str
    folder: Path
    number: int
    attempt: int
    job: str
    resumes: int = 0
    notice: int = 60


class PlannedPoint(NamedTuple):
    """Point to execute. ``source``: the frozen copy; ``kernel``: name of a kernelspec; ``cwd``: the
    folder of the source itself; ``sha256``: of the source."""

    source: Path
    kernel: str
    values: dict[str, Scalar]
    cwd: Path
    sha256: str


def read_task(environ: Mapping[str, str]) -> Task:
    """Return the task of this job. Raises RunError if this is no task of a run."""
    try:
        run = json.loads(environ.get(VARIABLE, ""))
        number = int(environ.get("SLURM_ARRAY_TASK_ID", ""))
        restarts = int(environ.get("SLURM_RESTART_COUNT") or 0)
        folder = Path(run["folder"])
        id, name = str(run["id"]), str(run["name"])
        resumes, notice = int(run.get("resumes", 0)), int(run.get("notice", 60))
    except (ValueError, KeyError, TypeError):
        raise RunError("It is no task of a run.") from None
    if number < 0 or not folder.is_absolute():
        raise RunError("It is no task of a run.")
    array = environ.get("SLURM_ARRAY_JOB_ID", "")
    job = f"{array}_{number}" if array else environ.get("SLURM_JOB_ID", "")
    return Task(id, name, folder, number, 1 + max(0, restarts), job, resumes, notice)


def read_point(task: Task) -> PlannedPoint:
    """Return the task's point. Raises RunError, also if the frozen source was changed."""
    plan = _plan(task)
    try:
        values = plan["points"][task.number]
        source = task.folder / str(plan["file"])
        kernel, sha256 = str(plan["kernel"]), str(plan["sha256"])
    except IndexError:
        raise RunError(f"The run has no point {task.number}.") from None
    except (KeyError, TypeError):
        raise RunError(f"{task.folder / FILE} is damaged.") from None
    if not isinstance(values, dict) or not re.fullmatch(r"source\.(ipynb|py)", source.name):
        raise RunError(f"{task.folder / FILE} is damaged.")
    try:
        with source.open("rb") as file:
            digest = hashlib.sha256()
            while part := file.read(1024 * 1024):
                digest.update(part)
    except OSError as error:
        raise RunError(f"{source} cannot be read: {error.strerror}.") from None
    if digest.hexdigest() != sha256:
        raise RunError(f"{source} is not what was frozen: it was changed. Start a new run.")
    cwd = task.folder.parent.parent
    return PlannedPoint(source, kernel, values, cwd, sha256)


def _plan(task: Task) -> dict[str, Any]:
    path = task.folder / FILE
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST)
    except FileNotFoundError:
        raise RunError(
            f"{path} is not there on this node: it was deleted, or its folder is on the session's "
            "node only."
        ) from None
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        plan = json.loads(text)
    except (ValueError, RecursionError):
        raise RunError(f"{path} is damaged.") from None
    if not isinstance(plan, dict) or plan.get("id") != task.id:
        raise RunError(f"{path} is another run's.")
    return plan


def claim_folder(task: Task) -> Path:
    """Return a new folder for the point, ``NNNN`` in the run's; if an earlier attempt has that,
    ``NNNN-2`` and so on. Raises RunError."""
    for number in range(1, _TRIES + 1):
        ending = f"-{number}" if number > 1 else ""
        folder = task.folder / f"{task.number:04d}{ending}"
        try:
            with suppress(FileExistsError):
                folder.mkdir()
                return folder
        except OSError as error:
            raise RunError(f"{folder} cannot be made: {reason(error)}") from None
    raise RunError(f"Point {task.number} was tried {_TRIES:,} times.")
