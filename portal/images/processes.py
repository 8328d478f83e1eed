"""What this process has started, ended to the last one: containers have many children."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


def take_orphans() -> None:
    """From now on, a descendant whose parent ends becomes this process's child, so that
    `end_descendants` finds it."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """The ids of all processes below ``pid``, parents first."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # The name in parentheses may hold anything: the fields count from the last one.
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def end_descendants(patience: float = 5.0) -> None:
    """End everything that this process started: SIGTERM, and SIGKILL after ``patience`` seconds."""
    me = os.getpid()
    give_up = time.monotonic() + patience
    _send(descendants(me), signal.SIGTERM)
    while _reap() and time.monotonic() < give_up:
        time.sleep(0.02)
    # One that the kernel holds, or another account's, is left to Slurm.
    while (below := descendants(me)) and time.monotonic() < give_up + patience:
        _send(below, signal.SIGKILL)
        if not _reap():
            return
        time.sleep(0.02)


def kill_descendants() -> None:
    """End everything at once, and leave it to whoever waits for them to collect them."""
    _send(descendants(os.getpid()), signal.SIGKILL)


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _reap() -> bool:
    """Collect children that ended; whether there are others."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
