"""Ranks that do nothing: how a rank sees that of its own script, and which one rank 0 names.

A rank that waits for another one for a long time uses no CPU time, as that one may, or it uses all
of a CPU within one call of a library, as with NCCL, and its Python does not go on. Where their
Python code stands tells them apart. Nothing is ended: a script may wait for its data.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..disk import read_regular
from .team import ALIVE, STACK, STACKS, TRACE, Team

VARIABLE = "PORTAL_STACK"  # path of the file for the stack of a script (library/portal_main.py)
# The same there: a thread of the script takes it, as one that reaches a sleeping call ends that
# (PyTorch's ranks that wait for rank 0's port would fail, "Interrupted system call").
SIGNAL = signal.SIGRTMIN + 9
# Python counts it in a file between two of its instructions, not within a call.
GOES_ON = signal.SIGRTMIN + 10
AT_ONCE = signal.SIGRTMIN + 11  # the same as SIGNAL, without Python: a call may not let it run
COUNT = ".count"  # ending of that file's path
IDLE = 12.0  # seconds until the stacks are compared
_ASKS = 4.0  # seconds between two of these signals
_AGAIN = 5.0  # seconds between two comparisons
_LATE = 3.5  # seconds for the answers, of which some may not come
_SILENT = 15.0  # seconds without a sign of a rank
_RUNS, _NOT_ASLEEP = "R", "RD"  # states of a thread (proc(5))
_SHARE = 0.02  # of a CPU that is nothing
_FRAME = re.compile(r'  File "(.+)", line ([0-9]+) in (.+)')
_LIBRARIES = re.compile(r"/lib(64)?/python|/(site|dist)-packages/|^<|/portal_main\.py$")
_LARGEST = 100_000


class Frame(NamedTuple):
    """Place in a script."""

    file: str
    line: int
    function: str

    @property
    def words(self) -> str:
        """Text for a sentence."""
        within = "" if self.function == "<module>" else f", in {self.function}"
        return f"{Path(self.file).name}, line {self.line}{within}"


class Activity:
    """Activity of the script of this rank, the leader of its process group."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self._used, self._at = 0.0, time.monotonic()
        self._busy_at = self._at
        self._asked = 0
        self._counted, self._sent_at = "", 0.0  # when the newest signal was sent

    def about(self, pid: int | None) -> dict[str, Any]:
        """Return what the others are told: the seconds since the script used a CPU, those for which
        its Python has not gone on though it uses one, and the state of its first process (proc(5)).
        Answer a request for its stack. Blocks."""
        if pid is None:
            self._busy_at = time.monotonic()
            return {"idle": 0.0, "still": 0.0, "state": ""}
        used, state, now = *_use(pid), time.monotonic()
        busy = used - self._used > _SHARE * (now - self._at) or used < self._used
        if busy:
            self._busy_at = now
        self._used, self._at = used, now
        self._answer(pid, state)
        # One whose main thread sleeps must not be woken; its others may use the CPU.
        still = self._still(pid, now) if busy and state == _RUNS else 0.0
        return {"idle": round(now - self._busy_at, 1), "still": round(still, 1), "state": state}

    def _still(self, pid: int, now: float) -> float:
        """Return the seconds for which a signal was not counted; send one if all were."""
        if not _handles(pid, GOES_ON):
            return 0.0
        try:
            count = Path(f"{self._team.path(TRACE)}{COUNT}").read_text()
        except OSError:
            return 0.0
        if count == self._counted and self._sent_at:
            return now - self._sent_at
        if now - self._sent_at >= _ASKS:
            self._counted, self._sent_at = count, now
            with contextlib.suppress(OSError):
                os.kill(pid, GOES_ON)
        return 0.0

    def _answer(self, pid: int, state: str) -> None:
        request = (self._team.of_lead(STACKS) or {}).get("number", 0)
        trace = self._team.path(TRACE)
        if request == self._asked or not trace.exists() or not _handles(pid, SIGNAL):
            return
        self._asked = request
        before = trace.stat().st_size
        with contextlib.suppress(OSError):
            for number in (SIGNAL, AT_ONCE) if state in _NOT_ASLEEP else (SIGNAL,):
                os.kill(pid, number)
                if _grows(trace, before):
                    break
            text = read_regular(trace, _LARGEST, own=True)[before:].decode(errors="replace")
            frame = _own_frame(text)
            self._team.write(STACK, {"number": request, "frame": frame and list(frame)})


class Watch:
    """View of all ranks for rank 0: which of them do nothing, and where."""

    def __init__(self, team: Team, nodes: Mapping[int, str]) -> None:
        self._team, self._nodes = team, nodes
        self._heard: dict[int, tuple[int, float]] = {}
        self._number, self._asked_at, self._said = 0, 0.0, ""

    def words(self, living: set[int]) -> str:
        """Return a sentence that names a rank that does nothing; "" if all go on. ``living``:
        ranks whose script has not ended. Blocks."""
        alive = {rank: self._team.read(ALIVE, rank) or {} for rank in living}
        now = time.monotonic()
        for rank, about in sorted(alive.items()):
            number = int(about.get("number") or 0)
            if self._heard.get(rank, (-1, 0.0))[0] != number:
                self._heard[rank] = number, now
            silent = now - self._heard[rank][1]
            if silent > _SILENT:
                return (
                    f"Nothing was heard of {self._named(rank)} for {silent:.0f} s: its node is "
                    "lost, or does not answer."
                )
            if about.get("state") in ("T", "t"):
                return f"{_upper(self._named(rank))} is stopped (SIGSTOP), and the others wait."
        idle = {rank: float(about.get("idle") or 0.0) for rank, about in alive.items()}
        waits = {
            rank: max(idle[rank], float(about.get("still") or 0.0)) for rank, about in alive.items()
        }
        if not any(seconds >= IDLE for seconds in waits.values()):
            self._number, self._said = 0, ""
            return ""
        stacks = {rank: self._team.read(STACK, rank) or {} for rank in idle}
        told = [stack.get("number") == self._number for stack in stacks.values()]
        if not self._number or now - self._asked_at > _AGAIN:
            self._asked_at, self._number = now, time.monotonic_ns()
            with contextlib.suppress(OSError):
                self._team.write_for_all(STACKS, {"number": self._number})
        elif all(told) or (any(told) and now - self._asked_at > _LATE):
            current = {rank: stack for rank, stack in stacks.items() if stack}
            self._said = self._compared(idle, waits, current)
        return self._said

    def _compared(
        self,
        idle: Mapping[int, float],
        waits: Mapping[int, float],
        stacks: Mapping[int, Mapping[str, Any]],
    ) -> str:
        groups: dict[Frame, list[int]] = {}
        for rank in sorted(stacks):
            frame = stacks[rank].get("frame")
            if isinstance(frame, list) and len(frame) == 3:
                groups.setdefault(Frame(*frame), []).append(rank)
        if len(groups) < 2:
            return ""
        all_wait = all(seconds >= IDLE for seconds in waits.values())
        sizes = sorted(groups.items(), key=lambda item: len(item[1]))
        if len(sizes[0][1]) == len(sizes[1][1]):  # as many here as there
            places = (f"{self._named(ranks[0])} is in {at.words}" for at, ranks in sizes[:4])
            words = f"{_upper('; '.join(places))}: they have not gone on for {IDLE:.0f} s."
            return words if all_wait else ""
        (frame, ranks), others = sizes[0], sizes[-1][0]
        seconds, done = max(idle[rank] for rank in ranks), "done nothing"
        if seconds < IDLE:
            if not all_wait:  # it computes, and the others wait for it
                return ""
            seconds, done = max(waits[rank] for rank in ranks), "not gone on"
        return (
            f"{_upper(self._named(ranks[0]))} has {done} for {seconds:.0f} s: it is in "
            f"{frame.words}, while {_count(sum(map(len, groups.values())) - len(ranks))} in "
            f"{others.words}."
        )

    def _named(self, rank: int) -> str:
        return f"rank {rank} on {self._nodes.get(rank) or 'its node'}"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _count(number: int) -> str:
    return "the other one is" if number == 1 else f"{number} others are"


def _own_frame(text: str) -> Frame | None:
    """Return the innermost frame in a stack of `faulthandler` that is in no library."""
    frames = [match.groups() for line in text.splitlines() if (match := _FRAME.match(line))]
    for file, line, function in frames:
        if not _LIBRARIES.search(file):
            return Frame(file, int(line), function)
    return None


def _grows(trace: Path, size: int) -> bool:
    """Wait half a second for a file to have more than ``size`` bytes; return True if it has.
    Raises OSError."""
    for _ in range(10):
        time.sleep(0.05)
        if trace.stat().st_size > size:
            time.sleep(0.05)  # the rest of it
            return True
    return False


def _handles(pid: int, number: int) -> bool:
    """Return True if a process handles a signal, by which it would otherwise end (proc(5))."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.partition(":")[2], 16) >> (number - 1) & 1)
    return False


def _use(group: int) -> tuple[float, str]:
    """Return the CPU seconds of a process group, and the state of its leader; "" if that is gone
    (proc(5))."""
    ticks, state = 0, ""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in parentheses may hold anything, spaces and parentheses included.
            stat = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if int(stat[2]) == group:
                ticks += int(stat[11]) + int(stat[12])
                if int(process.name) == group:
                    state = stat[0]
    return ticks / os.sysconf("SC_CLK_TCK"), state
