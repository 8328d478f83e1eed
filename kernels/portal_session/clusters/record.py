"""Record of a cluster: a file of mode 600 in the home, which the session and its workers' jobs
share. So no key is on a command line, in a job script or in Slurm's database."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..chosen_id import is_id
from ..job_kernels.record import BadRecord, folder, read_file, write_file

FOLDER = ".portal/.clusters"  # below the home


class ClusterRecord(NamedTuple):
    """Facts about one cluster."""

    id: str
    python: str  # the notebook's interpreter, which runs the workers
    cwd: str  # the notebook's directory, where its modules are
    certificate: str  # PEM, of all that are in the cluster, as ``private_key``
    private_key: str
    ports: str = ""  # the site's range, such as "40000-40999"
    address: str = ""  # of the scheduler, or Ray's head, "tls://HOST:PORT"
    token: str = ""  # of a Ray cluster, "" in others


def path_of(id: str, home: Path | None = None) -> Path:
    """Return the path of a record. Raises BadRecord for what is no id."""
    if not is_id(id):
        raise BadRecord("This is not the id of a cluster.")
    return folder(home, FOLDER) / f"{id}.json"


def read(id: str, home: Path | None = None) -> ClusterRecord:
    """Return a record. Raises BadRecord."""
    path = path_of(id, home)
    try:
        record = ClusterRecord(**read_file(path, "cluster"))
    except TypeError:
        raise BadRecord(f"{path} is damaged. Close the cluster and make a new one.") from None
    if record.id != id:
        raise BadRecord(f"{path} is another cluster's.")
    return record


def write(record: ClusterRecord, home: Path | None = None) -> None:
    """Write a record, whole or not at all. Raises BadRecord with the reason."""
    write_file(path_of(record.id, home), json.dumps(record._asdict()))


def remove(id: str, home: Path | None = None) -> None:
    """Remove a record, if there is one."""
    with suppress(OSError, BadRecord):
        path_of(id, home).unlink()
