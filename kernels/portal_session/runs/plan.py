"""Plan of a run: the frozen source with its local modules, and its points, in ``runs/NAME/`` beside
the source; in the home if strangers could replace that folder.

A folder is claimed by making it, so two runs never share one. ``run.json`` comes last: without it,
a folder is no run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from . import RunError
from .disk import read_regular, reason, strangers_may_replace
from .folders import note_folder
from .frozen import FILE, LARGEST, MODULES, about_modules, code_digest
from .git_state import git_state
from .local_modules import local_modules
from .points import Point
from .source import Source

FOLDER = "runs"  # beside the source, or in the home
LONGEST_NAME = 60
LONGEST_PATH = 1000  # as the portal takes it
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,59}")
_TRIES = 1000  # names that are taken


class Plan(NamedTuple):
    """Frozen run."""

    id: str
    name: str
    source: Path
    folder: Path  # its absolute path
    points: int  # their number
    code_digest: str  # of what will be executed, which the portal keeps

    def remove(self) -> None:
        """Remove the folder, and ``runs`` if nothing else is in it: the run was refused."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):
            self.folder.parent.rmdir()


def check_name(name: str) -> str:
    """Return the name of a run. Raises RunError for an invalid one, such as a path."""
    if not _NAME.fullmatch(name):
        raise RunError(
            f"'{name[:100]}' is not a valid name of a run. Use 1 to {LONGEST_NAME} letters, "
            "digits, dots, underscores and dashes, and do not begin with '.' or '-'."
        )
    return name


def name_after(source: Path) -> str:
    """Return a name for the run of a source: that of its file."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", source.stem).lstrip(".-").rstrip("-")
    return plain[:LONGEST_NAME] or "run"


def freeze(
    source: Source,
    points: Sequence[Point],
    name: str,
    *,
    id: str = "",
    kernel: str = "",
    environment: str = "",
    resources: Mapping[str, Any] | None = None,
    seed: int | None = None,
    search: Mapping[str, Any] | None = None,
    typed: Sequence[Mapping[str, str]] = (),
) -> Plan:
    """Write the source and the points into a new folder, and return the plan. If ``name`` is taken,
    the run has the name NAME-2, NAME-3, …

    ``id``: "" for a new one. ``kernel``: name of the kernelspec; "" of a script. ``resources``: as
    the portal is asked for them. ``seed``: of a sample. ``search``: as the portal is asked for it;
    the points then have what is the same for all. ``typed``: a script's values as they were typed.
    Raises RunError; nothing is left then.
    """
    of_source = _real(source.path).parent
    place = _place(of_source)
    if not str(place).isprintable() or len(str(place)) + LONGEST_NAME > LONGEST_PATH - 1:
        raise RunError(
            "The path of the source is longer than 900 characters, or has characters that cannot "
            "be printed. Move it to another folder."
        )
    # Python looks for a script's modules beside the file that a link leads to.
    linked = source.notebook is None
    modules = local_modules(source, source.path.resolve().parent if linked else of_source)
    folder = _claimed(place, name)
    plan = Plan(id or str(uuid.uuid4()), folder.name, source.path, folder, len(points), "")
    try:
        if strangers_may_replace(folder):  # 'runs' was made by another user meanwhile
            raise RunError(f"{place} belongs to another user. Start the run again.")
        content: dict[str, Any] = {
            "id": plan.id,
            "name": plan.name,
            "source": str(source.path),
            "file": source.file_name,
            "sha256": source.sha256,
            "modules": about_modules(modules),
            "working_directory": str(of_source),
            "kernel": kernel,
            "environment": environment,
            "image_digest": os.environ.get("PORTAL_IMAGE_DIGEST", ""),
            "resources": dict(resources or {}),
            "git": git_state(source.path),
            "created_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "seed": seed,
            "points": list(points),
        }
        if search:
            content["search"] = dict(search)
        if typed:
            content["typed"] = list(typed)
        _write(folder / source.file_name, source.content)
        if modules:
            (folder / MODULES).mkdir()
        for module, described in zip(modules, content["modules"]):
            _write(folder / described["file"], module.content)
        _write(folder / FILE, json.dumps(content, allow_nan=False, indent=1).encode())
    except OSError as error:
        plan.remove()
        raise RunError(f"The run cannot be written to {folder}: {reason(error)}") from None
    except BaseException:
        plan.remove()
        raise
    note_folder(plan.id, folder)
    return plan._replace(code_digest=code_digest(content))


def frozen_points(folder: Path) -> list[Point]:
    """Return the points of the run in ``folder``; [] if it is not there or damaged."""
    try:
        points = json.loads(read_regular(folder / FILE, LARGEST))["points"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    valid = isinstance(points, list) and all(isinstance(point, dict) for point in points)
    return points if valid else []


def _real(path: Path) -> Path:
    """Return the path without links in its folders: the job must find it on another node."""
    try:
        return path.parent.resolve(strict=True) / path.name
    except (OSError, RuntimeError):
        raise RunError(f"The folder of '{path}' cannot be found.") from None


def _place(of_source: Path) -> Path:
    """Return the folder of runs of a source in the folder ``of_source``: it is there, unless users
    who share nothing with this one could replace what is in it, or have made it. Raises
    RunError."""
    place = of_source / FOLDER
    try:
        if not _strangers_may_lead(place, of_source):
            return place
        home = Path.home().resolve()
        if strangers_may_replace(home):
            raise RunError(
                f"All users may replace files in {of_source}, and in your home. Copy the source to "
                "a folder in which only you may write."
            )
        return home / FOLDER
    except (OSError, RuntimeError) as error:
        raise RunError(f"The run cannot be written to {place}: {error}.") from None


def _strangers_may_lead(place: Path, of_source: Path) -> bool:
    """Return True if strangers may replace what is in ``place``, or lead it elsewhere. Raises
    OSError, RuntimeError."""
    try:
        paths = (place, place.resolve()) if place.is_dir() else (of_source,)
    except PermissionError:
        if not place.is_symlink():
            raise
        return True  # another user's link: proc_sys_fs(5), protected_symlinks
    return any(strangers_may_replace(path) for path in paths)


def _claimed(place: Path, name: str) -> Path:
    """Return a new folder in ``place`` with this name, or with the first number that is free.
    Raises RunError."""
    try:
        place.mkdir(mode=0o775, exist_ok=True)
        for number in range(1, _TRIES + 1):
            ending = f"-{number}" if number > 1 else ""
            folder = place / f"{name[: LONGEST_NAME - len(ending)]}{ending}"
            with suppress(FileExistsError):
                folder.mkdir(mode=0o775)
                return folder
    except FileExistsError:
        raise RunError(f"'{place}' is a file; runs need a folder of this name.") from None
    except OSError as error:
        raise RunError(
            f"The run cannot be written to {place}: {error.strerror}. Copy the source to one of "
            "your folders."
        ) from None
    raise RunError(f"There are {_TRIES:,} runs named '{name}'. Choose another name.")


def _write(path: Path, content: bytes) -> None:
    """Write a new file, whole or not at all. Raises OSError."""
    new = path.with_name(f".{path.name}.new")
    with new.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)  # the folder is new: nothing has this name
