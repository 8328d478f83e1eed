"""One daemon of the demo: started in the foreground, known by process id *and* start time.

A process id alone is not enough after a crash: the kernel gives it to another process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from portal.errors import Unavailable

from ..namespace import OWNER
from ..people import Account

MARK = "PORTAL_DEMO_HOME"
"""In the environment of every daemon: the home of its demo."""


def start_time(pid: int) -> str | None:
    """When ``pid`` started, in clock ticks since boot (proc(5), stat, field 22); None if gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] == "Z" else fields[19]


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Ask ``condition`` until it is true, at most ``seconds`` long; whether it became true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


# The nodes are this machine here, and each job is a scheduling group of its own: without it, sixty
# that start within one second take the turns of what everyone waits for. On a site they start
# elsewhere. At -10, forty jobs left the Hub a third of a CPU.
FIRST = -20
"""The nice value of the Hub, its proxy and its service, and of Slurm's controllers."""


def prefer(pid: int, nice: int = FIRST) -> None:
    """Have the kernel share out the CPUs between sessions (setsid(2)) with this nice value for
    those of ``pid`` and of its children (sched(7), "The autogroup feature"). Nothing happens where
    the kernel has no such feature, or this account may not."""
    family = [str(pid)]
    with contextlib.suppress(OSError):
        family += Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for one in family:
        with contextlib.suppress(OSError):
            Path(f"/proc/{one}/autogroup").write_text(str(nice))


class Daemon:
    """A child process ``name`` that can be started again and again.

    ``argv``: what runs, in the foreground; ``log``: where its output goes; ``ready``: answers
    whether it serves (asked until true, at most ``patience`` seconds); ``account``: whom it runs
    as, None for this process's own account; ``nice``: see ``prefer``. The pid file in ``run``
    outlives a kill -9.
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
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self.process is not None and self.process.poll() is None

    def start(self, wait: bool = True) -> None:
        """Start it and, unless ``wait`` is false, return when it is ready. Running: no change.

        Raises Unavailable, with the end of its log, when it ends or is not ready in time.
        """
        if self.running:
            return
        # Who logs in when, and from where, is not for everyone on the machine.
        with os.fdopen(
            os.open(self.log, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o640), "ab"
        ) as out:
            self.process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
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
        """Return when it is ready. What it has started by then counts with it (``nice``)."""
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
        """Ask it to end; do not wait."""
        if self.running and self.process:
            self.process.terminate()

    def kill(self) -> None:
        """End it at once (SIGKILL) and wait for that."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.pid_file.unlink(missing_ok=True)

    def stop(self, timeout: float = 5) -> None:
        """Ask it to end, wait ``timeout`` seconds, then kill it."""
        self.terminate()
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout)
        self.kill()

    def once(self, argv: list[str | Path], timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run another program to its end, as this one runs: its account, environment and folder."""
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
    """Processes of the demo in ``home``, wherever they hang in the process tree.

    Found by the pid files in ``run`` (with the start time that they name), by MARK in their
    environment, by a mount namespace whose /etc is this demo's (``namespace.OWNER``), as
    slurmstepd with a file of this demo, and below any of these. This process and what is above it
    are left out.
    """
    found: set[int] = set()
    for file in run.glob("*.process"):
        pid, _, started = file.read_text().strip().partition(" ")
        if pid.isdigit() and start_time(int(pid)) == started:
            found.add(int(pid))
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
                found.add(pid_number)
    grew = True
    while grew:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grew = bool(more)
    mine = os.getpid()
    while mine:
        found.discard(mine)
        mine = parents.get(mine, 0)
    return sorted(found)


def _is_inside(process: Path, home: Path) -> bool:
    """Whether ``process`` is in the namespace of the demo in ``home``."""
    try:
        # A link is read without being followed or opened, whatever a container has put there.
        return (process / "root" / OWNER).readlink() == home
    except FileNotFoundError:
        return False


def _is_step_of(process: Path, home: Path) -> bool:
    """Whether ``process`` is a slurmstepd of this demo.

    It hangs below init and writes its title over its environment; its log file tells.
    """
    if (process / "comm").read_text().strip() != "slurmstepd":
        return False
    links = [str(file.readlink()) for file in (process / "fd").iterdir()]
    return any(link.startswith(f"{home}/demo/") for link in links)


def end_all(pids: Callable[[], list[int]], timeout: float = 3) -> None:
    """End the processes that ``pids`` names: ask, wait ``timeout`` seconds, then kill."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if not pids():
                return
            time.sleep(0.1)
