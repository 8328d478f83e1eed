"""How much memory one TensorBoard may use, and how much it does.

What it holds in memory (RSS) is watched, by the program itself. A limit of its address space
(RLIMIT_AS) would not do: numpy, gRPC and threads reserve much more than they use, and at the limit
some thread dies with a MemoryError where a person needs a sentence.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

MIB = 1024 * 1024
DEFAULT = 4096  # MiB
LEAST = 64  # MiB: a job so small that TensorBoard does not fit is told so


def memory_limit(environ: Mapping[str, str]) -> int:
    """MiB for one TensorBoard: PORTAL_TENSORBOARD_MEMORY, and at most half of the job's memory
    (SLURM_MEM_PER_NODE, MiB)."""
    limit = _number(environ.get("PORTAL_TENSORBOARD_MEMORY", "")) or DEFAULT
    job = _number(environ.get("SLURM_MEM_PER_NODE", ""))
    return max(LEAST, min(limit, job // 2) if job else limit)


def tree_memory(pid: int) -> int:
    """MiB that process ``pid`` and its descendants hold; what they share counts for each."""
    pages = 0
    waiting = [pid]
    while waiting:
        process = Path(f"/proc/{waiting.pop()}")
        try:
            pages += int((process / "statm").read_text().split()[1])
            for task in (process / "task").iterdir():
                # Kernels without CONFIG_PROC_CHILDREN have no such file: then it counts alone.
                waiting += [int(child) for child in (task / "children").read_text().split()]
        except (OSError, ValueError, IndexError):
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") // MIB


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0
