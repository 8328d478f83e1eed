"""State of a kept cluster: a file of mode 600 beside its record, for what only its scheduler and
the sessions know."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ...chosen_id import is_id
from ...job_kernels.record import BadRecord, folder, read_file, write_file
from ..record import FOLDER, path_of

_ENDING = ".kept"


class KeptState(NamedTuple):
    """Facts about a kept cluster. Times are Unix seconds."""

    resources: dict[str, Any]  # of each worker
    idle: float  # seconds without a client after which it has no workers
    dashboard: str = ""  # where the scheduler's job serves its pages (`relay`), "HOST:PORT"
    began: float = 0.0  # when the scheduler that runs did
    ends: float = 0.0  # the end of its job's time limit; 0: unknown
    lost: float = 0.0  # when one took another's place, until that is said to the user


def read(id: str, home: Path | None = None) -> KeptState:
    """Return the state of a kept cluster. Raises BadRecord."""
    path = _path(id, home)
    try:
        return KeptState(**read_file(path, "cluster"))
    except TypeError:
        raise BadRecord(f"{path} is damaged. Stop the cluster and make a new one.") from None


def write(id: str, state: KeptState, home: Path | None = None) -> None:
    """Write the state, whole or not at all. Raises BadRecord with the reason."""
    write_file(_path(id, home), json.dumps(state._asdict()))


def remove(id: str, home: Path | None = None) -> None:
    """Remove a state, if there is one."""
    with suppress(OSError, BadRecord):
        _path(id, home).unlink()


def _path(id: str, home: Path | None) -> Path:
    return path_of(id, home).with_suffix(_ENDING)


def kept_ids(home: Path | None = None) -> list[str]:
    """List the ids of all states."""
    try:
        names = sorted(path.stem for path in folder(home, FOLDER).glob(f"*{_ENDING}"))
    except (OSError, BadRecord):
        return []
    return [name for name in names if is_id(name)]
