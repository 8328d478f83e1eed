"""Task of a run's array job: the point that it executes, as run.json in the run's folder has it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from .. import RunError
from ..disk import read_regular, reason
from ..frozen import FILE, LARGEST, Frozen, read_frozen
from ..parameters import Scalar
from .manifest import FILE as MANIFEST

# JSON: "id", "name", "folder", "points"; if they are set, "limit", "kill_wait", "keep_failed",
# "resumes" and "notice", "attempt" (of points, that are over), "version" (of the environment),
# "code_digest" (of what is executed) and "origin" (of a repetition: "id", "user", "folder").
VARIABLE = "PORTAL_RUN"
_TRIES = 1000  # attempts of a point


class Origin(NamedTuple):
    """Run that another one repeats."""

    id: str
    user: str
    folder: Path


class Task(NamedTuple):
    """Task of a run."""

    id: str
    name: str
    folder: Path  # of the run
    number: int  # of the point, from 0
    attempt: int  # from 1
    job: str  # its Slurm job, such as "123_4"
    keep_failed: bool = False  # the kernel of a cell that fails is kept for some minutes
    version: int = 0  # of the environment, 0: unknown
    origin: Origin | None = None  # the run that is repeated
    resumes: int = 0  # how many times the point may be resumed
    notice: int = 60  # seconds between Slurm's signal and the end of the job's time, at least
    limit: int = 0  # the job's time in seconds, 0: unknown
    kill_wait: int = 0  # seconds between Slurm's SIGTERM and SIGKILL, 0: unknown
    code_digest: str = ""  # of the frozen code, as the portal keeps it, "" of an older run


class PlannedPoint(NamedTuple):
    """Point to execute."""

    source: Path  # the frozen copy of the file ``path``
    path: Path
    kernel: str  # name of a kernelspec
    values: dict[str, Scalar]
    cwd: Path  # the folder of the source itself
    frozen: Frozen  # what is executed, as it was compared with its digest
    # A script's values as they were typed, where JSON writes them otherwise.
    typed: Mapping[str, str]
    search: Mapping[str, Any] | None = None  # by which the portal chooses further values
    repeats: Path | None = None  # the folder of the run that this one repeats


def read_task(environ: Mapping[str, str]) -> Task:
    """Return the task of this job. Raises RunError if this is no task of a run."""
    try:
        run = json.loads(environ.get(VARIABLE, ""))
        number = int(environ.get("SLURM_ARRAY_TASK_ID", ""))
        restarts = int(environ.get("SLURM_RESTART_COUNT") or 0)
        folder = Path(run["folder"])
        id, name = str(run["id"]), str(run["name"])
        keep_failed = run.get("keep_failed") is True
        earlier, version = int(run.get("attempt") or 0), int(run.get("version") or 0)
        of = run.get("origin")
        origin = of and Origin(str(of["id"]), str(of["user"]), Path(of["folder"]))
        resumes, notice = int(run.get("resumes", 0)), int(run.get("notice", 60))
        limit, kill_wait = int(run.get("limit") or 0), int(run.get("kill_wait") or 0)
        code_digest = str(run.get("code_digest") or "")
    except (ValueError, KeyError, TypeError):
        raise RunError("It is not a task of a run.") from None
    if number < 0 or not folder.is_absolute() or (origin and not origin.folder.is_absolute()):
        raise RunError("It is not a task of a run.")
    array = environ.get("SLURM_ARRAY_JOB_ID", "")
    job = f"{array}_{number}" if array else environ.get("SLURM_JOB_ID", "")
    attempt = 1 + max(0, earlier) + max(0, restarts)
    return Task(
        id,
        name,
        folder,
        number,
        attempt,
        job,
        keep_failed,
        version,
        origin,
        resumes,
        notice,
        limit,
        kill_wait,
        code_digest,
    )


def read_point(task: Task) -> PlannedPoint:
    """Return the task's point. Raises RunError, also if what was frozen was changed."""
    frozen = read_frozen(task.folder, task.id, task.code_digest)
    plan = frozen.plan
    try:
        values = plan["points"][task.number]
        kernel, search = str(plan["kernel"]), plan.get("search")
        path = working_directory(plan, task.folder) / Path(str(plan["source"])).name
        of_points = plan.get("typed") or [{}] * len(plan["points"])
        typed = {str(name): str(text) for name, text in of_points[task.number].items()}
    except IndexError:
        raise RunError(f"The run has no point {task.number}.") from None
    except (KeyError, TypeError, AttributeError):
        raise RunError(f"{task.folder / FILE} is damaged.") from None
    if not isinstance(values, dict):
        raise RunError(f"{task.folder / FILE} is damaged.")
    source = task.folder / str(plan["file"])
    repeats = None if task.origin is None else task.origin.folder
    return PlannedPoint(source, path, kernel, values, path.parent, frozen, typed, search, repeats)


def working_directory(plan: Mapping[str, Any], folder: Path) -> Path:
    """Return the folder of the source of the run in ``folder``; of a repetition, the original's."""
    return Path(str(plan.get("working_directory") or folder.parent.parent))


def succeeded_before(task: Task) -> Path | None:
    """Return the folder in which an earlier attempt of the point has succeeded; None without one.
    The portal may not know of it: its database was away, or an older copy was put back."""
    for folder in point_folders(task.folder, task.number):
        manifest = manifest_of(folder, own=True)
        of = manifest.get("run")  # the folder may be that of a run that was deleted
        own = isinstance(of, dict) and of.get("id") == task.id
        if own and manifest.get("state") == "succeeded":
            return folder
    return None


def point_folders(folder: Path, number: int) -> list[Path]:
    """Return the folders of a point's attempts in the run's folder, the newest first."""
    pattern = re.compile(rf"{number:04d}(?:-([0-9]{{1,4}}))?")
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError:
        return []
    matches = [match for name in names if (match := pattern.fullmatch(name))]
    matches.sort(key=lambda match: int(match[1] or 1), reverse=True)
    return [folder / match[0] for match in matches]


def manifest_of(folder: Path, *, own: bool = False) -> dict[str, Any]:
    """Return the manifest in a point's folder; {} without one that can be read. ``own``: it must be
    this user's."""
    try:
        manifest = json.loads(read_regular(folder / MANIFEST, LARGEST, own=own))
    except (OSError, ValueError, RecursionError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def claim_folder(task: Task) -> Path:
    """Return a new folder for the point, ``NNNN`` in the run's; ``NNNN-2`` and so on for a later
    attempt, by which the portal's page finds it, or the first that is free. Raises RunError."""
    for number in range(task.attempt, task.attempt + _TRIES):
        ending = f"-{number}" if number > 1 else ""
        folder = task.folder / f"{task.number:04d}{ending}"
        try:
            with suppress(FileExistsError):
                folder.mkdir()
                return folder
        except OSError as error:
            raise RunError(f"{folder} cannot be created: {reason(error)}") from None
    raise RunError(f"Point {task.number} was tried {_TRIES:,} times.")
