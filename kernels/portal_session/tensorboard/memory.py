"""Memory limit of one TensorBoard, and its memory use.

The program watches its own resident memory (RSS). A limit of its address space (RLIMIT_AS) would
not do: numpy, gRPC and threads reserve much more than they use, and at the limit some thread dies
with a MemoryError instead of a message to the person.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

MIB = 1024 * 1024
DEFAULT = 4096  # MiB
LEAST = 64  # MiB: in a job too small for TensorBoard, it stops with a message


def memory_limit(environ: Mapping[str, str]) -> int:
    """Return the MiB for one TensorBoard: PORTAL_TENSORBOARD_MEMORY, and at most half of the job's
    memory (SLURM_MEM_PER_NODE, MiB)."""
    limit = _number(environ.get("PORTAL_TENSORBOARD_MEMORY", "")) or DEFAULT
    job = _number(environ.get("SLURM_MEM_PER_NODE", ""))
    return max(LEAST, min(limit, job // 2) if job else limit)


def tree_memory(pid: int) -> int:
    """Return the MiB that process ``pid`` and its descendants hold; shared memory counts for
    each."""
    pages = 0
    waiting = [pid]
    while waiting:
        process = Path(f"/proc/{waiting.pop()}")
        try:
            pages += int((process / "statm").read_text().split()[1])
            for task in (process / "task").iterdir():
                # Kernels without CONFIG_PROC_CHILDREN lack this file: then only ``pid`` counts.
                waiting += [int(child) for child in (task / "children").read_text().split()]
        except (OSError, ValueError, IndexError):
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") // MIB


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0
