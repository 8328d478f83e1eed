"""Observation of the session's programs: some seconds of samples from /proc."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from .blocked import COMPUTING, READING, RECEIVING, WRITING, Wait, wait_of
from .connections import Connections

PERIOD = 0.05  # seconds between two samples
LOAD = 0.2  # largest share of one CPU that sampling takes
_PROCESSES_PERIOD = 0.5  # seconds until new processes are noticed, and between readings of the GPUs
_EVENT_LOOP = 64 * 1024  # bytes a second: an event loop that receives less just waits for anything
_SIZES = 60  # files whose size is looked up
_SIZES_TIME = 1.5  # seconds for that: the folder may be slow


@dataclass
class Program:
    """Process as it was seen. ``threads``: mean number of threads that were computing, reading, …;
    ``cpu``: cores that it used; ``ready``: share of the time of its computing threads in which they
    had no CPU, None if unknown; ``reads``, ``read``: read calls and bytes a second."""

    number: int
    name: str
    threads: dict[str, float] = field(default_factory=dict)
    cpu: float = 0.0
    ready: float | None = None
    reads: float = 0.0
    read: float = 0.0

    @property
    def active(self) -> float:
        """Return the mean number of its threads that did anything."""
        return sum(self.threads.values())


@dataclass
class Observation:
    """Observation of ``seconds``. ``read_from``, ``written_to``: mean number of threads that waited
    by file, "" for files without a name; ``peers``: the same by peer, ``received``: bytes a second
    from them; ``sizes``: of files that were seen, in bytes; ``gpu``: mean use in percent."""

    seconds: float
    cpus: int
    programs: list[Program]
    read_from: dict[str, float] = field(default_factory=dict)
    written_to: dict[str, float] = field(default_factory=dict)
    peers: dict[str, float] = field(default_factory=dict)
    received: float = 0.0
    sizes: list[int] = field(default_factory=list)
    gpu: float | None = None

    def total(self, kind: str) -> float:
        """Return the mean number of threads that did this."""
        return sum(program.threads.get(kind, 0.0) for program in self.programs)


class Observer:
    """Observer of the processes that ``numbers()`` returns. ``gpus`` reads the session's GPUs.
    Its methods block."""

    def __init__(
        self,
        numbers: Callable[[], Collection[int]],
        gpus: Callable[[], list[dict[str, Any]]],
        cpus: int,
        proc: Path = Path("/proc"),
        connections: Callable[[], Connections] = Connections,
    ) -> None:
        self._numbers, self._gpus, self._cpus, self._proc = numbers, gpus, cpus, proc
        self._make_connections = connections

    def observe(self, seconds: float) -> Observation:
        """Observe for ``seconds``."""
        seen = _Seen(self._proc, self._make_connections())
        began = time.monotonic()
        looked_at = began - _PROCESSES_PERIOD
        busy: list[float | None] = []
        while True:
            at = time.monotonic()
            if at - looked_at >= _PROCESSES_PERIOD:
                looked_at = at
                seen.begin(self._numbers())
                busy += [gpu["utilization"] for gpu in self._gpus()]
            seen.sample()
            now = time.monotonic()
            if now - began >= seconds:
                break
            time.sleep(max(PERIOD - (now - at), (now - at) * (1 / LOAD - 1)))
        known = [value for value in busy if value is not None]
        gpu = sum(known) / len(known) if known else None
        return seen.observation(now - began, self._cpus, gpu)


class _Seen:
    """Samples of one observation."""

    def __init__(self, proc: Path, connections: Connections) -> None:
        self._proc, self._connections = proc, connections
        self._programs: dict[int, Program] = {}
        self._threads: dict[int, Counter[str]] = {}
        self._before: dict[int, _Counters] = {}
        self._after: dict[int, _Counters] = {}
        self._alive: set[int] = set()
        self._samples = 0
        self._read_from: Counter[str] = Counter()
        self._written_to: Counter[str] = Counter()
        self._peers: Counter[str] = Counter()
        self._loops: Counter[tuple[int, tuple[int, ...]]] = Counter()  # by process and inodes
        self._inodes: set[int] = set()

    def begin(self, numbers: Collection[int]) -> None:
        """Note which processes there are now."""
        self._alive = set(numbers)
        for number in self._alive - self._programs.keys():
            counters = _counters(self._proc / str(number))
            if counters:
                self._programs[number] = Program(number, _name(self._proc / str(number)))
                self._threads[number] = Counter()
                # What a process did before its first sample is not of this observation, except if
                # it was born meanwhile; then that is little.
                self._before[number] = counters

    def sample(self) -> None:
        """Look at each thread once."""
        self._samples += 1
        for number in self._alive & self._programs.keys():
            process = self._proc / str(number)
            try:
                threads = os.listdir(process / "task")  # noqa: PTH208 - quick
            except OSError:
                self._alive.discard(number)
                continue
            for thread in threads:
                wait = wait_of(process, process / "task" / thread)
                if wait is not None:
                    self._count(number, wait)
            counters = _counters(process)
            if counters:
                self._after[number] = counters

    def _count(self, number: int, wait: Wait) -> None:
        threads = self._threads[number]
        if wait.kind == RECEIVING:
            peers = {inode: self._connections.peer(inode) for inode in wait.sockets}
            inodes = tuple(sorted(inode for inode, peer in peers.items() if peer))
            if not inodes:
                return
            if wait.idle:
                self._loops[number, inodes] += 1
                return
            self._inodes.update(inodes)
            self._peers[peers[inodes[0]]] += 1
        elif wait.kind == READING:
            self._read_from[wait.path] += 1
        elif wait.kind == WRITING:
            self._written_to[wait.path] += 1
        elif wait.kind != COMPUTING:
            return
        threads[wait.kind] += 1

    def observation(self, seconds: float, cpus: int, gpu: float | None) -> Observation:
        """Return the means over all samples."""
        self._count_loops(seconds)
        for number, program in self._programs.items():
            program.threads = self._mean(self._threads[number])
            after = self._after.get(number)
            if after:
                _set_rates(program, self._before[number], after, seconds)
        received = sum(self._connections.received(inode) for inode in self._inodes)
        return Observation(
            seconds=seconds,
            cpus=cpus,
            programs=[program for program in self._programs.values() if program.active],
            read_from=self._mean(self._read_from),
            written_to=self._mean(self._written_to),
            peers=self._mean(self._peers),
            received=received / seconds,
            sizes=_sizes(self._read_from),
            gpu=gpu,
        )

    def _count_loops(self, seconds: float) -> None:
        """Count event loops as receiving if much was received meanwhile."""
        for (number, inodes), samples in self._loops.items():
            rates = {inode: self._connections.received(inode) / seconds for inode in inodes}
            if sum(rates.values()) >= _EVENT_LOOP:
                most = max(rates, key=lambda inode: rates[inode])
                self._inodes.update(inodes)
                self._peers[self._connections.peer(most)] += samples
                self._threads[number][RECEIVING] += samples

    def _mean(self, counts: Counter[str]) -> dict[str, float]:
        return {key: count / self._samples for key, count in counts.items()}


@dataclass(frozen=True)
class _Counters:
    """Counters of a process: seconds on CPUs and ready for one, read calls, bytes read."""

    ran: float
    waited: float | None
    reads: int
    read: int


def _counters(process: Path) -> _Counters | None:
    try:
        fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
        ran = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
    io: dict[str, str] = {}
    # It cannot be read of a program that forbids that (PR_SET_DUMPABLE in prctl(2)).
    with contextlib.suppress(OSError, ValueError):
        io = dict(line.split(": ") for line in (process / "io").read_text().splitlines())
    return _Counters(ran, _waited(process), int(io.get("syscr", 0)), int(io.get("rchar", 0)))


def _waited(process: Path) -> float | None:
    """Return the seconds for which the threads of a process were ready and had no CPU; None if the
    kernel does not count them (CONFIG_SCHED_INFO)."""
    total, counted = 0, False
    try:
        for thread in os.listdir(process / "task"):  # noqa: PTH208 - quick
            total += int((process / "task" / thread / "schedstat").read_text().split()[1])
            counted = True
    except (OSError, ValueError, IndexError):
        return None
    return total / 1e9 if counted else None


def _set_rates(program: Program, before: _Counters, after: _Counters, seconds: float) -> None:
    ran = max(0.0, after.ran - before.ran)
    program.cpu = ran / seconds
    program.reads = max(0, after.reads - before.reads) / seconds
    program.read = max(0, after.read - before.read) / seconds
    if before.waited is not None and after.waited is not None:
        waited = max(0.0, after.waited - before.waited)
        program.ready = waited / (waited + ran) if waited + ran else 0.0


def _name(process: Path) -> str:
    """Return the program and its script: "python train.py"."""
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        name = (process / "comm").read_text(errors="replace").strip()
    except OSError:
        return ""
    paths = [os.fsdecode(word) for word in words[:4] if word]
    script = next((path for path in paths[1:] if path.endswith((".py", ".ipynb", ".R", ".sh"))), "")
    program = Path(paths[0]).name if paths else name
    if "ipykernel_launcher" in " ".join(paths):
        return "the notebook's kernel"
    return f"{program} {Path(script).name}".strip()[:60]


def _sizes(files: Counter[str]) -> list[int]:
    """Return the sizes of the files that were seen most, as far as they are told in time."""
    sizes: list[int] = []
    until = time.monotonic() + _SIZES_TIME
    for path, _ in files.most_common(_SIZES):
        if time.monotonic() >= until:
            break
        try:
            status = Path(path).stat() if path else None
        except OSError:
            continue
        if status and status.st_size and stat.S_ISREG(status.st_mode):
            sizes.append(status.st_size)
    return sizes


def cpus(environ: Mapping[str, str]) -> int:
    """Return how many CPUs this session has on its node."""
    allowed = len(os.sched_getaffinity(0))
    told = environ.get("SLURM_CPUS_ON_NODE", "")
    return min(allowed, int(told)) if told.isdecimal() and int(told) else allowed
