"""A daemon of the demo: started in the foreground, identified by process id *and* start time.

A process id alone is not enough after a crash: the kernel may reuse it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from portal.errors import Unavailable

from ..namespace import OWNER
from ..people import Account

MARK = "PORTAL_DEMO_HOME"
"""Environment variable of every daemon that holds the home of its demo."""


def start_time(pid: int) -> str | None:
    """Return the start time of ``pid`` in clock ticks since boot (proc(5), stat, field 22).

    None if the process is gone or a zombie.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] == "Z" else fields[19]


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll ``condition`` for at most ``seconds``; return True once it holds, False on timeout."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


# In the demo all nodes are this machine, and each job is a scheduling group of its own: without
# this, sixty jobs that start within a second starve the daemons that everyone waits for. At a real
# site, jobs start on other machines. At -10, forty jobs left the Hub a third of a CPU.
FIRST = -20
"""Nice value of the Hub, its proxy and its service, and of Slurm's controllers."""


def prefer(pid: int, nice: int = FIRST) -> None:
    """Set the autogroup nice value of the sessions (setsid(2)) of ``pid`` and its children.

    The kernel shares the CPUs between sessions by it (sched(7), "The autogroup feature"). Does
    nothing if the kernel lacks the feature or this account may not use it.
    """
    family = [str(pid)]
    with contextlib.suppress(OSError):
        family += Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for member in family:
        with contextlib.suppress(OSError):
            Path(f"/proc/{member}/autogroup").write_text(str(nice))


def end_child(process: subprocess.Popen[bytes], timeout: float) -> None:
    """Send SIGTERM to a child process, wait at most ``timeout`` seconds, then kill it."""
    process.terminate()
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Daemon:
    """Child process ``name`` that can be restarted.

    ``argv``: its command line, run in the foreground; ``log``: directory of its output; ``ready``:
    returns True once it serves (polled for at most ``patience`` seconds); ``account``: its account,
    None for this process's own; ``nice``: see ``prefer``. The pid file in ``run`` survives a
    kill -9.
    """

    def __init__(
        self,
        name: str,
        argv: Iterable[str | Path],
        *,
        run: Path,
        log: Path,
        env: Mapping[str, str],
        ready: Callable[[], bool] = lambda: True,
        account: Account | None = None,
        patience: float = 120,
        cwd: Path = Path("/"),
        nice: int = 0,
        listening: socket.socket | None = None,
    ) -> None:
        self.name = name
        self.argv = [str(word) for word in argv]
        self.log = log / f"{name}.out"
        self.pid_file = run / f"{name}.process"
        self.env = dict(env)
        self.ready = ready
        self.account = account
        self.patience = patience
        self.cwd = cwd
        self.nice = nice
        self.listening = listening
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """True while the process is alive."""
        return self.process is not None and self.process.poll() is None

    def start(self, wait: bool = True) -> None:
        """Start the process and, if ``wait``, wait until it is ready. No change if it is running.

        Raises Unavailable, with the end of its log, if it ends or is not ready in time.
        """
        if self.running:
            return
        # The log tells who logs in when and from where: not readable by everyone.
        with os.fdopen(
            os.open(self.log, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o640), "ab"
        ) as out:
            self.process = subprocess.Popen(
                self.argv,
                stdin=self.listening.fileno() if self.listening else subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self.env,
                cwd=self.cwd,
                # Ctrl-C in the terminal must reach the supervisor only: it ends them in order.
                start_new_session=True,
                **self._credentials(),
            )
        if self.nice:
            prefer(self.process.pid, self.nice)
        self.pid_file.write_text(f"{self.process.pid} {start_time(self.process.pid)}\n")
        if wait:
            self.wait()

    def wait(self) -> None:
        """Wait until the process is ready, then apply ``nice`` to its children too.

        Raises Unavailable as ``start`` does.
        """
        served = wait_for(lambda: not self.running or self.ready(), self.patience)
        if not self.running:
            raise Unavailable(f"{self.name} ended at its start. {self._last_words()}")
        if not served:
            raise Unavailable(
                f"{self.name} is not ready after {self.patience:.0f} s. {self._last_words()}"
            )
        if self.nice and self.process:
            prefer(self.process.pid, self.nice)

    def terminate(self) -> None:
        """Send SIGTERM; do not wait."""
        if self.running and self.process:
            self.process.terminate()

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.pid_file.unlink(missing_ok=True)

    def stop(self, timeout: float = 5) -> None:
        """Send SIGTERM, wait at most ``timeout`` seconds, then kill the process."""
        if self.process is not None:
            end_child(self.process, timeout)
        self.pid_file.unlink(missing_ok=True)

    def once(
        self, argv: Sequence[str | Path], timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run another program to its end with this daemon's account, environment and directory."""
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.env,
            cwd=self.cwd,
            timeout=timeout,
            check=False,
            **self._credentials(),
        )

    def _credentials(self) -> dict[str, Any]:
        if self.account is None or self.account.uid == os.geteuid():
            return {}
        return {
            "user": self.account.uid,
            "group": self.account.gid,
            "extra_groups": list(self.account.groups),
        }

    def _last_words(self) -> str:
        own_log = self.log.with_suffix(".log")
        for path in (own_log, self.log):
            if path.exists() and (lines := path.read_text(errors="replace").split("\n")[-6:]):
                return f"The end of {path}: " + " | ".join(line for line in lines if line)
        return f"It wrote nothing to {self.log}."


def leftovers(home: Path, run: Path) -> list[int]:
    """Return the processes of the demo in ``home``, anywhere in the process tree.

    They are found by the pid files in ``run`` (with the start time in them), by MARK in their
    environment, by a mount namespace whose /etc is this demo's (``namespace.OWNER``), as a
    slurmstepd with a file of this demo open, and as descendants of any of these. This process and
    its ancestors are left out.
    """
    pids: set[int] = set()
    for file in run.glob("*.process"):
        pid, _, started = file.read_text().strip().partition(" ")
        if pid.isdigit() and start_time(int(pid)) == started:
            pids.add(int(pid))
    mark = f"{MARK}={home}\0".encode()
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        pid_number = int(entry.name)
        with contextlib.suppress(OSError, ValueError):
            stat = (entry / "stat").read_text()
            parents[pid_number] = int(stat[stat.rindex(")") + 2 :].split()[1])
            marked = mark in (entry / "environ").read_bytes() + b"\0"
            if marked or _is_inside(entry, home) or _is_step_of(entry, home):
                pids.add(pid_number)
    grew = True
    while grew:
        more = {pid for pid, parent in parents.items() if parent in pids} - pids
        pids |= more
        grew = bool(more)
    ancestor = os.getpid()
    while ancestor:
        pids.discard(ancestor)
        ancestor = parents.get(ancestor, 0)
    return sorted(pids)


def _is_inside(process: Path, home: Path) -> bool:
    """Return True if ``process`` is in the mount namespace of the demo in ``home``."""
    try:
        # The link is read but never followed or opened: a container may have put anything there.
        return (process / "root" / OWNER).readlink() == home
    except FileNotFoundError:
        return False


def _is_step_of(process: Path, home: Path) -> bool:
    """Return True if ``process`` is a slurmstepd of this demo.

    slurmstepd is a child of init and overwrites its environment with its title; its open log file
    identifies it.
    """
    if (process / "comm").read_text().strip() != "slurmstepd":
        return False
    links = [str(file.readlink()) for file in (process / "fd").iterdir()]
    return any(link.startswith(f"{home}/demo/") for link in links)


def end_all(pids: Callable[[], list[int]], timeout: float = 3) -> None:
    """Send SIGTERM to the processes of ``pids`` and, after ``timeout`` seconds, SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if not pids():
                return
            time.sleep(0.1)
