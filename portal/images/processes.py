"""What this process has started, ended to the last one: containers have many children."""

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
    """From now on, a descendant whose parent ends becomes this process's child, so that
    `end_descendants` finds it."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> frozenset[int]:
    """The ids of this process's own children."""
    return frozenset(_below().get(os.getpid(), []))


def descendants(pid: int, but: Collection[int] = ()) -> list[int]:
    """The ids of all processes below ``pid``, parents first, without those named in ``but`` and
    what is below them."""
    below = _below()
    found: list[int] = []
    waiting = [pid]
    while waiting:
        more = [one for one in below.get(waiting.pop(), []) if one not in but]
        found += more
        waiting += more
    return found


def end_descendants(but: Collection[int], patience: float = 5.0) -> None:
    """End everything that this process started, but for the children named in ``but``: SIGTERM,
    and SIGKILL after ``patience`` seconds."""
    me = os.getpid()
    give_up = time.monotonic() + patience
    _send(descendants(me, but), signal.SIGTERM)
    while _reap(but) and time.monotonic() < give_up:
        time.sleep(0.02)
    # One that the kernel holds, or another account's, is left to Slurm.
    while (below := descendants(me, but)) and time.monotonic() < give_up + patience:
        _send(below, signal.SIGKILL)
        _reap(but)
        time.sleep(0.02)


def kill_descendants(but: Collection[int]) -> None:
    """End them at once, and leave it to whoever waits for them to collect them."""
    _send(descendants(os.getpid(), but), signal.SIGKILL)


def _below() -> dict[int, list[int]]:
    """The children of every process."""
    found: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):  # not "/stat": it may be over before one looks
        with suppress(OSError, ValueError, IndexError):
            # The name in parentheses may hold anything: the fields count from the last one.
            stat = (process / "stat").read_text(errors="replace").rpartition(")")[2]
            found.setdefault(int(stat.split()[1]), []).append(int(process.name))
    return found


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _reap(but: Collection[int]) -> bool:
    """Collect children that ended; whether others live."""
    living = False
    for pid in children() - set(but):
        with suppress(ChildProcessError):
            living |= os.waitpid(pid, os.WNOHANG)[0] == 0
    return living
