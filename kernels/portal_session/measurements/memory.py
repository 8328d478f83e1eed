"""Memory of the node that this job uses, and its limit: from its cgroup, else /proc."""

from __future__ import annotations

import os
import re
from pathlib import Path

MIB = 1024 * 1024
_NO_LIMIT = 1 << 60  # bytes: cgroup v1 writes a number near 2**63 for "none"


def job_memory(job_id: str, root: Path = Path("/")) -> tuple[int | None, int | None]:
    """Return (used, limit) in MiB of the job on this node; None if unknown.

    Slurm names a job's cgroup ``job_ID``; any other cgroup is not the job's.
    """
    for directory, files in _job_cgroups(job_id, root):
        used = _number(directory / files["used"])
        if used is None:
            continue
        # The page cache of inactive files is reclaimed before a job runs out of memory.
        cached = _entry(directory / "memory.stat", files["cached"]) or 0
        limit = _number(directory / files["limit"])
        if limit is not None and limit >= _NO_LIMIT:
            limit = None
        return max(0, used - cached) // MIB, None if limit is None else limit // MIB
    return _resident(job_id, root), None


_V2 = {"used": "memory.current", "limit": "memory.max", "cached": "inactive_file"}
_V1 = {
    "used": "memory.usage_in_bytes",
    "limit": "memory.limit_in_bytes",
    "cached": "total_inactive_file",
}


def _job_cgroups(job_id: str, root: Path) -> list[tuple[Path, dict[str, str]]]:
    """Return the job's directories, from /proc/self/cgroup (cgroups(7)): version 2, then version
    1."""
    cgroups = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        parts = [part for part in path.split("/") if part]
        if f"job_{job_id}" not in parts or ".." in parts:
            continue
        own = Path(*parts[: parts.index(f"job_{job_id}") + 1])
        mounts = root / "sys/fs/cgroup"
        if not controllers:
            cgroups += [(mounts / own, _V2), (mounts / "unified" / own, _V2)]
        elif "memory" in controllers.split(","):
            cgroups.append((mounts / "memory" / own, _V1))
    return cgroups


def _resident(job_id: str, root: Path) -> int | None:
    """Sum up the resident memory of this account's processes of the job, as Slurm itself counts.

    They are known by the job's id in their environment. Memory shared by several counts for each.
    """
    pages = 0
    seen = False
    for process in (root / "proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if process.stat().st_uid != os.getuid():
                continue
            if job_in((process / "environ").read_bytes()) == job_id.encode():
                pages += int((process / "statm").read_text().split()[1])
                seen = True
        except (OSError, ValueError, IndexError):
            continue  # it has ended meanwhile, or may not be read
    return pages * os.sysconf("SC_PAGE_SIZE") // MIB if seen else None


def job_in(environ: bytes) -> bytes:
    """Return the id of the job that a process belongs to, from /proc/PID/environ; b"" if it names
    none.

    Terminals and kernels have it as PORTAL_JOB_ID
    (kernels/portal_session/kernels/environment.py), and so have jobs that were submitted from
    them: those have a SLURM_JOB_ID of their own.
    """
    for name in (b"SLURM_JOB_ID", b"PORTAL_JOB_ID"):
        match = re.search(b"\0" + name + b"=([^\0]*)\0", b"\0" + environ + b"\0")
        if match:
            return match[1]
    return b""


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


def _number(path: Path) -> int | None:
    """Return the number in a file; None for "max" and if there is none."""
    text = _read(path).strip()
    return int(text) if text.isdecimal() else None


def _entry(path: Path, name: str) -> int | None:
    for line in _read(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdecimal():
            return int(value)
    return None
