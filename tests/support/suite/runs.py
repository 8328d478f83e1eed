"""Cleanup after a run of pytest, however it ends.

SIGTERM and SIGHUP end a run through the fixtures, as Ctrl-C does; processes that they left are
ended after them (``end_descendants``). The kernel ends a run's children with it if it can
(``ends_with_parent``). For SIGKILL, each run has a record, a file that it holds locked: the next
run finds records without a lock and ends the processes that those runs have left.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import IO

import psutil

from portal.demo.daemons.process import end_all
from portal.demo.home import Home
from portal.demo.whole import sweep

MARK = "PORTAL_TEST_RUN"  # environment variable of a run's processes: path of its record
_PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None)
_OWN_END = 10.0  # seconds for a process to end by itself
_interrupted: list[psutil.Process] = []  # descendants of this run at the time of a signal


def end_on_signals() -> None:
    """Make SIGTERM, SIGHUP and SIGINT interrupt this process once, as Ctrl-C does.

    SIGINT is ignored in a shell's background processes (sh(1), "Asynchronous lists").
    """

    def interrupt(*_: object) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # do not interrupt the fixtures' cleanup
        _interrupted.extend(psutil.Process().children(recursive=True))
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, interrupt)


def end_descendants() -> None:
    """End the remaining processes of an interrupted run, after all fixtures.

    pytest-xdist ends a worker whose fixtures take longer than ten seconds to end (NodeManager,
    EXIT_TIMEOUT): a demo then dies with it, but other servers would stay.
    """
    _, left = psutil.wait_procs(_interrupted, timeout=_OWN_END)
    for end in (psutil.Process.terminate, psutil.Process.kill):
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                end(process)
        _, left = psutil.wait_procs(left, timeout=_OWN_END)


def ends_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent dies (prctl(2)); for use as ``preexec_fn``."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class RunRecord:
    """Record of this run in ``folder``, locked while the run is alive.

    Its lines are the state directories of demos, added by conftest's ``a_home``.
    """

    def __init__(self, folder: Path) -> None:
        folder = folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        # It gets its name once it is locked, so that no other run takes it for dead.
        descriptor, hidden = tempfile.mkstemp(prefix=".", dir=folder)
        self._file: IO[bytes] = os.fdopen(descriptor, "wb", buffering=0)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self.path = folder / f"{os.getpid()}-{Path(hidden).name[1:]}.run"
        Path(hidden).rename(self.path)
        os.environ[MARK] = str(self.path)

    def remove(self) -> None:
        """Remove the record: the run has ended all of its processes."""
        self.path.unlink(missing_ok=True)
        self._file.close()


def end_leftovers(folder: Path) -> list[Path]:
    """End the remaining processes of dead runs; return the records of those runs."""
    dead = []
    for path in sorted(folder.glob("*.run")):
        with contextlib.suppress(FileNotFoundError), path.open("r") as record:
            try:
                fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # still alive
            mark = f"{MARK}={path}\0".encode()
            end_all(lambda mark=mark: _marked(mark))  # type: ignore[misc]
            for line in record.read().splitlines():
                home = Path(line)
                if home.is_dir():
                    sweep(Home(home, home / "cache"))
                    shutil.rmtree(home, ignore_errors=True)
            path.unlink(missing_ok=True)
            dead.append(path)
    return dead


def _marked(mark: bytes) -> list[int]:
    """Return the ids of other processes with ``mark`` in their environment (proc(5))."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes() + b"\0":
                    pids.append(int(entry.name))
    return pids
