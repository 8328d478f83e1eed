"""Record of a job kernel: a file of mode 600 in the home, which the session and the job share.

It names the address that the job connects to, and holds the keys of both ends. So no secret is on a
command line, in a job script or in Slurm's database.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ..chosen_id import is_id

FOLDER = ".portal/.kernels"  # below the home; no environment's name begins with a dot
LARGEST = 64 * 1024  # bytes of a file


class BadRecord(Exception):
    """Record that is missing, damaged, or not this account's alone; the text says which."""


class Record(NamedTuple):
    """Facts about one job kernel."""

    id: str
    request: dict[str, Any]  # what the service was asked for (environment, kernel, resources)
    key: str  # signs Jupyter's messages (HMAC)
    certificate: str  # PEM, of both ends of the connection, as ``private_key``
    private_key: str
    host: str = ""  # where the relay listens, with ``port``
    port: int = 0
    starter: str = ""  # SHA-256 of the starter's secret, once it has connected
    # Number of the kernel's process in the job, from 1; a relay that continues a life leaves the
    # kernel's state alone.
    life: int = 1
    cwd: str = ""  # its working directory
    notebook: str = ""  # path of its notebook in the session, if it has one (`note`)
    submitted: bool = False  # the service has accepted the job
    # The next relay continues the life, since the session's server is a new one, or the last relay
    # was killed.
    adopt: bool = False
    session: str = ""  # path of the session's address
    spec: str = ""  # the kernelspec's name
    relay: str = ""  # job and process id of the relay, "JOB:PID"

    def but(self, **changes: Any) -> Record:
        """Return a copy with ``changes``."""
        return self._replace(**changes)


def folder(home: Path | None = None, name: str = FOLDER) -> Path:
    """Return the folder of the records, created with mode 700. Raises BadRecord if it is another
    account's."""
    path = (home or Path.home()) / name
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise BadRecord(f"{path} is not your folder.")
        if status.st_mode & 0o077:
            path.chmod(0o700)
    except OSError as error:
        raise BadRecord(f"{path} cannot be used: {error.strerror}.") from None
    return path


def path_of(id: str, home: Path | None = None) -> Path:
    """Return the path of a record. Raises BadRecord for what is no id."""
    if not is_id(id):
        raise BadRecord("This is not the id of a kernel.")
    return folder(home) / f"{id}.json"


def read(id: str, home: Path | None = None) -> Record:
    """Return a record. Raises BadRecord."""
    path = path_of(id, home)
    try:
        record = Record(**read_file(path))
    except TypeError:
        raise _damaged(path) from None
    if record.id != id:
        raise BadRecord(f"{path} is another kernel's.")
    with suppress(OSError, ValueError):
        return record.but(notebook=path.with_suffix(".notebook").read_text())
    return record


def read_file(path: Path, of: str = "kernel") -> dict[str, Any]:
    """Return the JSON object of a file that only this account can read. ``of``: what has it. Raises
    BadRecord."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise BadRecord(f"The {of}'s record cannot be read: {error.strerror}.") from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise BadRecord(f"{path} can be read or written by others: it is not used.")
        text = file.read(LARGEST + 1)
    try:
        content = json.loads(text) if len(text) <= LARGEST else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise _damaged(path, of)
    return content


def _damaged(path: Path, of: str = "kernel") -> BadRecord:
    return BadRecord(f"{path} is damaged. Delete it and restart the {of}.")


def write(record: Record, home: Path | None = None) -> None:
    """Write a record, whole or not at all. Raises BadRecord with the reason."""
    write_file(path_of(record.id, home), json.dumps(record._asdict()))


def note(id: str, notebook: str, home: Path | None = None) -> None:
    """Write the path of a kernel's notebook, which the session's server knows and its relay does
    not. Raises BadRecord."""
    write_file(path_of(id, home).with_suffix(".notebook"), notebook)


def adopt(id: str, home: Path | None = None) -> bool:
    """Let the next relay of a kernel continue its life after the last one was killed; return False
    if its job has not connected yet: what the relay kept for it is lost. Raises BadRecord."""
    record = read(id, home)
    running = record.submitted and bool(record.starter)
    if running:
        write(record.but(adopt=True), home)
    return running


def write_file(path: Path, text: str) -> None:
    """Write a file in the folder, of mode 600, whole or not at all. Raises BadRecord."""
    new = path.with_name(f".{path.stem}-{os.urandom(4).hex()}")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise BadRecord(
            f"The record cannot be written to {path.parent}: {error.strerror}."
        ) from None


def remove(id: str, home: Path | None = None) -> None:
    """Remove a record and its note, if they exist."""
    for ending in (".notebook", ".json"):
        with suppress(OSError, BadRecord):
            path_of(id, home).with_suffix(ending).unlink()


def ids(home: Path | None = None) -> list[str]:
    """List the ids of all records."""
    try:
        names = sorted(path.stem for path in folder(home).glob("*.json"))
    except (OSError, BadRecord):
        return []
    return [name for name in names if is_id(name)]
