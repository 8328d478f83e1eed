"""Descendants of this process, all of which can be ended: containers have many children."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


def take_orphans() -> None:
    """Make a descendant whose parent ends a child of this process from now on, so that
    `end_descendants` finds it."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> frozenset[int]:
    """Return the ids of this process's own children."""
    return frozenset(_below().get(os.getpid(), []))


def descendants(pid: int, but: Collection[int] = ()) -> list[int]:
    """Return the ids of all processes below ``pid``, parents first, without those named in ``but``
    and what is below them."""
    below = _below()
    pids: list[int] = []
    waiting = [pid]
    while waiting:
        more = [child for child in below.get(waiting.pop(), []) if child not in but]
        pids += more
        waiting += more
    return pids


def end_descendants(but: Collection[int], patience: float = 5.0) -> None:
    """End all descendants of this process, except the children named in ``but``: SIGTERM, and
    SIGKILL after ``patience`` seconds."""
    me = os.getpid()
    give_up = time.monotonic() + patience
    _send(descendants(me, but), signal.SIGTERM)
    while _reap(but) and time.monotonic() < give_up:
        time.sleep(0.02)
    # A process that the kernel holds, or of another account, is left to Slurm.
    while (below := descendants(me, but)) and time.monotonic() < give_up + patience:
        _send(below, signal.SIGKILL)
        _reap(but)
        time.sleep(0.02)


def kill_descendants(but: Collection[int]) -> None:
    """Kill all descendants but those in ``but`` at once; whoever waits for them collects them."""
    _send(descendants(os.getpid(), but), signal.SIGKILL)


def _below() -> dict[int, list[int]]:
    """Return the children of every process."""
    tree: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):  # not "/stat": it may be over before one looks
        with suppress(OSError, ValueError, IndexError):
            # The name in parentheses may hold anything: the fields count from the last one.
            stat = (process / "stat").read_text(errors="replace").rpartition(")")[2]
            tree.setdefault(int(stat.split()[1]), []).append(int(process.name))
    return tree


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _reap(but: Collection[int]) -> bool:
    """Collect children that ended; return True if others live."""
    living = False
    for pid in children() - set(but):
        with suppress(ChildProcessError):
            living |= os.waitpid(pid, os.WNOHANG)[0] == 0
    return living
