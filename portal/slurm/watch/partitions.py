"""Partitions as this machine sees them: the host that submits, and the groups that it knows."""

from __future__ import annotations

import grp
import socket
from collections.abc import Sequence
from pathlib import Path

from portal.models.cluster.cluster import Partition

from .. import parse

HOST = socket.gethostname().partition(".")[0]  # as sbatch names it to slurmctld (AllocNodes)
_LOCAL_GROUPS = Path("/etc/group")


def read_partitions(text: str) -> dict[str, Partition]:
    """Parse partitions, and note whose groups the directory knows. Blocks: it asks the system."""
    return {
        name: partition.model_copy(update={"groups_known": _of_directory(partition.allow_groups)})
        for name, partition in parse.partitions(text).items()
    }


def _of_directory(groups: Sequence[str]) -> bool:
    """Return True if this machine knows all of ``groups``, and from elsewhere than its own file:
    a local group is in no directory, and its members here may not be those on Slurm's machine."""
    if not groups:
        return False
    lines = _LOCAL_GROUPS.read_text(errors="replace").splitlines()
    local = {line.partition(":")[0] for line in lines}
    try:
        return all(name not in local and grp.getgrnam(name) for name in groups)
    except KeyError:
        return False
