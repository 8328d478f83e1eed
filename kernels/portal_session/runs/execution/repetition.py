"""Folder of a run that repeats another one: its code and points are those of the original, by the
digest that the portal keeps.

The portal cannot read users' files, so the first task that arrives makes the folder, on its node,
as the user: under another name first, so that it is there whole or not at all.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from .. import RunError
from ..folders import note_folder
from ..frozen import FILE, MODULES, Frozen, read_frozen
from ..git_state import git_state
from .drift import of_git
from .task import Origin, Task, working_directory

_SETTLES = 60.0  # seconds after which each node sees a folder that another one has made (nfs(5))
_PAUSE = 0.5


def make_repetition(task: Task) -> None:
    """Make the folder of a run that repeats another one, unless it is there; nothing for other
    runs. Raises RunError with the folder that cannot be read or written."""
    if task.origin is None or (task.folder / FILE).exists():
        return
    frozen = _original(task.origin, task.code_digest)
    plan = frozen.plan
    cwd = working_directory(plan, task.origin.folder)
    state = git_state(cwd)
    new = {
        **plan,
        "id": task.id,
        "name": task.name,
        "working_directory": str(cwd),  # a run that is older than digests does not say it
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
            if frozen.modules:
                (whole / MODULES).mkdir()
            for name, content in frozen.files.items():
                (whole / name).write_bytes(content)
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


def _original(origin: Origin, digest: str) -> Frozen:
    """Return the frozen code of the original. Raises RunError."""
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
    try:
        return read_frozen(origin.folder, origin.id, digest)
    except RunError as error:
        raise RunError(f"The run cannot be repeated as it was. {error}") from None
