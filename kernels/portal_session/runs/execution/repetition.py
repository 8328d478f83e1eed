"""Folder of a run that repeats another one: its source and points are those of the original.

The portal cannot read users' files, so the first task that arrives makes the folder, on its node,
as the user: under another name first, so that it is there whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
import uuid
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .. import RunError
from ..folders import note_folder
from ..git_state import git_state
from ..plan import FILE
from ..source import LARGEST
from .drift import of_git
from .task import Origin, Task, read_plan, working_directory

_SETTLES = 60.0  # seconds after which each node sees a folder that another one has made (nfs(5))
_PAUSE = 0.5


def make_repetition(task: Task) -> None:
    """Make the folder of a run that repeats another one, unless it is there; nothing for other
    runs. Raises RunError with the folder that cannot be read or written."""
    if task.origin is None or (task.folder / FILE).exists():
        return
    plan, content = _original(task.origin)
    cwd = working_directory(plan, task.origin.folder)
    state = git_state(cwd)
    new = {
        **plan,
        "id": task.id,
        "name": task.name,
        "working_directory": str(cwd),
        "git": state,
        "created_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "origin": {
            "id": task.origin.id,
            "user": task.origin.user,
            "folder": str(task.origin.folder),
        },
        "drift": of_git(state, plan.get("git")),
    }
    # The random part keeps the tasks of an array apart, which start at the same moment.
    whole = task.folder.with_name(f".{task.folder.name}.{uuid.uuid4().hex[:12]}")
    try:
        task.folder.parent.mkdir(exist_ok=True)
        whole.mkdir()
        try:
            (whole / str(plan["file"])).write_bytes(content)
            (whole / FILE).write_text(json.dumps(new, allow_nan=False, indent=1))
            _rename(whole, task.folder)
        finally:
            shutil.rmtree(whole, ignore_errors=True)
    except OSError as error:
        raise RunError(f"{task.folder} cannot be created: {error.strerror}.") from None
    _wait_for(task.folder / FILE)
    note_folder(task.id, task.folder)


def _rename(whole: Path, folder: Path) -> None:
    """Give the folder its name, unless another task was first. Raises OSError."""
    try:
        whole.rename(folder)
    except OSError:
        if not folder.exists():
            raise


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + _SETTLES
    while not path.exists() and time.monotonic() < deadline:
        with suppress(OSError):
            list(path.parent.iterdir())  # the node asks the server again
        time.sleep(_PAUSE)


def _original(origin: Origin) -> tuple[dict[str, Any], bytes]:
    """Return run.json and the source of the original. Raises RunError."""
    try:
        list(origin.folder.iterdir())
    except FileNotFoundError:
        raise RunError(
            f"The original run's folder {origin.folder} does not exist on this node: it was "
            "deleted or moved. Start a new run."
        ) from None
    except OSError as error:
        raise RunError(
            f"The original run's folder {origin.folder} cannot be read: {error.strerror}. Ask "
            f"{origin.user} to let you read it, with 'chmod' or 'setfacl', then repeat the run."
        ) from None
    plan = read_plan(origin.folder, origin.id)
    file, sha256 = str(plan.get("file")), plan.get("sha256")
    if not re.fullmatch(r"source\.(ipynb|py)", file):
        raise RunError(f"{origin.folder / FILE} is damaged.")
    source = origin.folder / file
    try:
        with source.open("rb") as opened:
            content = opened.read(LARGEST + 1)
    except OSError as error:
        raise RunError(
            f"{source} cannot be read: {error.strerror}. Ask {origin.user} to let you read it."
        ) from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise RunError(
            f"{source} was changed after it was frozen, so the run cannot be repeated. "
            "Start a new run."
        )
    return plan, content
