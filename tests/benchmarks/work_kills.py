"""Faults while kernels and runs work: eight points that end while a piece of the site is away, one
that goes on, and a cell of a kernel in a job of its own that prints all the while. Rows of
``kills``."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path

import httpx
from api_client import Caller
from hub_client import Person
from notebook_kernel import NotebookKernel, Ran
from stepping_clock import WallClock
from terminal import terminal
from tornado.httpclient import HTTPClientError

from portal.demo.running import Running

from .cluster import NotMeasured, wait_for

WHO, NODE = "ada", "gpu01"
SPEC = "job-jupyterlab-python3-t4"
POINTS, STEPS = 8, 9  # the number of the point that goes on is POINTS
TRUE_WITHIN = 30.0  # seconds after the end of the fault
_PATIENCE = 300.0  # seconds until a row is given up
_HOUR = 3600
_LINE = 0.25  # seconds between two lines of the cell
_RESOURCES = "--partition cpu --cpus 1 --memory 100M --time 0:30:00"
_POINT = f"""
import itertools, os, sys, time
from portal_metrics import log
number, seconds = (part.partition("=")[2] for part in sys.argv[1:3])
with open("executed", "a") as file:
    file.write(f"{{number}}\\n")
for step in itertools.count() if number == "{POINTS}" else range({STEPS}):
    log(step=step, loss=1 / (step + 1))
    with open(f"step-{{number}}", "w") as file:
        file.write(str(step))
    if os.path.exists("enough"):
        break
    time.sleep(float(seconds) / {STEPS})
"""
_CELL = """
import time
with open("cells", "a") as file:
    file.write("cell\\n")
for line in range({lines}):
    print(line, flush=True)
    time.sleep({pause})
"""

# The Hub and its service, which read this before they serve, start themselves again with the clock.
_CLOCK = """
import os, sys
if "WALL_CLOCK" not in os.environ:
    os.execve(sys.executable, sys.orig_argv, os.environ | {clock!r})
"""

# A session, a kernel, or the way to it, that is not there any more.
_GONE = (AssertionError, TimeoutError, OSError, HTTPClientError)

Fault = Callable[["Work"], contextlib.AbstractContextManager[None]]


@dataclass
class Judged:
    """Outcome of a row: points and lines of the cell that were ``lost``, executions that came
    ``twice``, and the seconds after the end of the fault until all that is shown was true."""

    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    true_after: float | None = None

    @property
    def good(self) -> bool:
        return not self.lost and not self.twice and (self.true_after or 1e9) <= TRUE_WITHIN

    @property
    def words(self) -> str:
        late = "never" if self.true_after is None else f"{self.true_after:.0f} s"
        return "; ".join([f"true after {late}", *self.lost, *(f"twice: {x}" for x in self.twice)])


class Work:
    """Ada's session, a kernel in a job of its own, and a run."""

    def __init__(self, running: Running) -> None:
        state = running.state
        if state is None:
            raise NotMeasured("No demo runs there.")
        self.running, self.url = running, str(state["url"])
        self.caller = Caller(self.url, WHO)
        self.person: Person = self.caller.person
        self.home = Path(str(state["homes"])) / WHO

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """Have ada's session while the block runs."""
        self.person.stop()
        self.person.launch({"environment": "python-venv", "gpus": 0, "time": "2:00:00"})
        self.person.wait_ready()
        try:
            yield
        finally:
            self.person.stop()

    def row(self, fault: Fault, seconds: float) -> Judged:
        """Carry out a fault of some ``seconds`` while points end and a cell prints."""
        folder = self.home / f"kills-{secrets.token_hex(3)}"
        terminal(self.person, f"mkdir {folder}")
        (folder / "work.py").write_text(_POINT)
        kernel = self._kernel(folder)
        run = self._run(folder, max(12.0, seconds * 0.6))
        wait_for("points run", lambda: self._executed(folder).total() == POINTS + 1, 120)
        lines = int((seconds + 15) / _LINE)
        cell = kernel.send(_CELL.format(lines=lines, pause=_LINE))
        wait_for("the cell runs", (folder / "cells").exists, 60)
        with fault(self):
            time.sleep(seconds)
        over, step = time.monotonic(), int((folder / f"step-{POINTS}").read_text() or 0)
        judged = Judged()
        with contextlib.suppress(NotMeasured):
            wait_for("all is true", partial(self._is_true, run, step), _PATIENCE)
            judged.true_after = time.monotonic() - over
        (folder / "enough").touch()
        executed = self._executed(folder)
        judged.lost += [f"point {n} lost" for n in range(POINTS + 1) if not executed[str(n)]]
        judged.twice += [f"point {n}" for n, times in executed.items() if times > 1]
        self._judge_cell(kernel, cell, folder, lines, judged)
        if judged.true_after is None:
            judged.lost.append(self._said(run))
        return judged

    def _kernel(self, folder: Path) -> NotebookKernel:
        specs = lambda: self.person.session("GET", "api/kernelspecs").json()["kernelspecs"]  # noqa: E731
        wait_for("the kernel is offered", lambda: SPEC in specs(), 120, 2)
        kernel = NotebookKernel.start(self.person, SPEC)
        if kernel.run(f"import os\nos.chdir({str(folder)!r})\nx = 41").status != "ok":
            raise NotMeasured("The kernel does not start.")
        return kernel

    def _run(self, folder: Path, seconds: float) -> str:
        values = ",".join(str(number) for number in range(POINTS + 1))
        options = f"--at-once {POINTS + 1} --set n={values} --set seconds={seconds:g}"
        command = f"cd {folder} && portal-run work.py {_RESOURCES} {options}"
        said = ""

        def started() -> bool:
            nonlocal said
            said = terminal(self.person, command)
            return "Results:" in said

        try:
            wait_for("the run starts", started, 120, 3)
        except NotMeasured:
            raise NotMeasured(said[-500:]) from None
        return str(self.caller.get("runs?limit=1").json()["items"][0]["id"])

    def _executed(self, folder: Path) -> Counter[str]:
        with contextlib.suppress(OSError):
            return Counter((folder / "executed").read_text().split())
        return Counter()

    def _is_true(self, run: str, step: int) -> bool:
        """Return True once the portal shows that all points but one have succeeded, their last
        metrics, and of the one that goes on this ``step`` or a later one."""
        with contextlib.suppress(httpx.HTTPError, ValueError, KeyError):
            shown = self.caller.get(f"runs/{run}").json()
            points = self.caller.get(f"runs/{run}/points").json()["items"]
            done = shown["counts"]["succeeded"] == POINTS and shown["counts"]["running"] == 1
            steps = {point["number"]: point["metrics"].get("step", -1) for point in points}
            return done and steps.pop(POINTS) >= step and {*steps.values()} == {STEPS - 1}
        return False

    def _said(self, run: str) -> str:
        with contextlib.suppress(httpx.HTTPError, ValueError, KeyError):
            shown = self.caller.get(f"runs/{run}").json()
            points = self.caller.get(f"runs/{run}/points").json()["items"]
            steps = [point["metrics"].get("step") for point in points]
            said = {str(point["message"]) for point in points}
            return f"{shown['state']}, {json.dumps(shown['counts'])}, steps {steps}, {said}"
        return "the portal does not answer"

    def _judge_cell(
        self, kernel: NotebookKernel, cell: str, folder: Path, lines: int, judged: Judged
    ) -> None:
        """Look for lost lines, and end the kernel."""
        ran: Ran | None = None
        with contextlib.suppress(*_GONE):
            ran = kernel.wait(cell, _PATIENCE)
        if ran is not None:
            missing = lines - len(ran.printed.splitlines())
            judged.lost += [f"{missing} lines of the cell"] if missing else []
        cells = (folder / "cells").read_text().split()
        judged.twice += ["the cell"] if len(cells) > 1 else []
        kernel.leave()
        kernel._loop = asyncio.new_event_loop()  # the proxy may have closed its connection
        with contextlib.suppress(*_GONE):
            if kernel.run("print(x)", 60).printed != "41\n":
                judged.lost.append("the kernel's variables")
            kernel.leave()
            kernel.shut_down()
            return
        judged.lost.append("the kernel")


@contextlib.contextmanager
def killed(work: Work, piece: str) -> Iterator[None]:
    """Kill a piece of the demo; start it again at the end."""
    work.running.control("kill", piece)
    try:
        yield
    finally:
        work.running.control("start", piece)


@contextlib.contextmanager
def own_node_killed(work: Work) -> Iterator[None]:
    """Kill the slurmd of the session's own node. Slurm gives it up later than it comes back: in the
    demo it would after 30 s, and end the jobs there."""
    argv = ["squeue", "-h", f"--user={WHO}", "--array", "-o", "%N %k"]
    rows = work.running.run(argv, timeout=30).stdout.splitlines()
    nodes = [row.split()[0] for row in rows if row.endswith("python-venv:")]
    if not nodes:
        raise NotMeasured("The session's node is not known.")
    state = work.running.state or {}
    patient = "s/^SlurmdTimeout=.*/SlurmdTimeout=900/"
    work.running.run(["sed", "-i", patient, state["slurm_conf"]])
    work.running.run(["scontrol", "reconfigure"])
    with killed(work, nodes[0]):
        yield


@contextlib.contextmanager
def service_stopped(work: Work, service: Callable[[], int]) -> Iterator[None]:
    """Stop the web service, as one that hangs; it is killed at the end, and the Hub starts it
    anew."""
    pid = service()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def drained(work: Work) -> Iterator[None]:
    """Drain a node on which points run."""
    argv = ["squeue", "-h", f"--user={WHO}", "--array", "-o", "%i %N"]
    rows = work.running.run(argv, timeout=30).stdout.splitlines()
    node = next(row.split()[1] for row in rows if "_" in row.split()[0] and len(row.split()) == 2)
    update = ["scontrol", "update", f"nodename={node}"]
    work.running.run([*update, "state=drain", "reason=bench"], timeout=30)
    try:
        yield
    finally:
        work.running.run([*update, "state=resume"], timeout=30)


@contextlib.contextmanager
def cut(work: Work) -> Iterator[None]:
    """Drop all that relay and starter of the kernel send to each other."""
    records = (work.home / ".portal/.kernels").glob("*.json")
    ports = {json.loads(path.read_text()).get("port") for path in records} - {None, 0}
    rules = [
        ["-p", "tcp", f"--{way}", str(port), "-j", "DROP"]
        for port in ports
        for way in ("dport", "sport")
    ]
    if not rules:
        raise NotMeasured("The kernel has no record.")
    done = []
    try:
        for rule in rules:
            if work.running.run(["iptables", "-I", "INPUT", *rule], check=False).returncode:
                raise NotMeasured("iptables cannot be used here.")
            done.append(rule)
        yield
    finally:
        for rule in done:
            work.running.run(["iptables", "-D", "INPUT", *rule], check=False)


@contextlib.contextmanager
def clock_stepped(work: Work, clock: WallClock | None) -> Iterator[None]:
    """Set the clock of the Hub and its service an hour ahead, and back at the end."""
    if clock is None:
        raise NotMeasured("Only a demo that was started for these rows has a clock to set.")
    clock.set(_HOUR)
    try:
        for path in ("/hub/login", "/services/portal/"):
            said = parsedate_to_datetime(work.person.http.get(path).headers["Date"])
            if abs(said.timestamp() - time.time() - _HOUR) > _HOUR / 2:
                raise NotMeasured(f"{path} has another clock.")
        yield
    finally:
        clock.set(0)


def give_clock(place: Path) -> WallClock:
    """Return the clock, in ``place``, of the Hub of the next demo and of its service."""
    place.mkdir()
    clock = WallClock(place)
    (place / "wall_clock.py").write_text(_CLOCK.format(clock=clock.environment))
    os.environ["PORTAL_CONFIG_D"] = str(place)
    return clock


@contextlib.contextmanager
def disk_full(work: Work) -> Iterator[None]:
    """Fill the disk of the Hub's and the portal's databases; make space at the end."""
    place = str((work.running.state or {})["hub_directory"])
    if work.running.run(["mountpoint", "-q", place], check=False).returncode:
        raise NotMeasured("Only a demo that was started for these rows has a small disk.")
    filler = f"{place}/filler"
    work.running.run(["dd", "if=/dev/zero", f"of={filler}", "bs=64k"], check=False)
    work.running.run(["sh", "-c", f"yes >> {filler}"], check=False)
    try:
        yield
    finally:
        work.running.run(["rm", filler])


def give_small_disk(running: Running) -> None:
    """Move the databases of the demo's Hub to a disk of 192 MB of their own."""
    place = str((running.state or {})["hub_directory"])
    running.control("stop", "hub")
    running.run(["cp", "-a", place, f"{place}.copy"])
    running.run(["mount", "-t", "tmpfs", "-o", "size=192m", "none", place])
    running.run(["cp", "-a", f"{place}.copy/.", place])
    running.control("start", "hub")


def rows(service: Callable[[], int], clock: WallClock | None) -> dict[str, tuple[Fault, float]]:
    """Return the faults by name, each with its seconds. ``service`` returns the web service's
    process id; ``clock`` is that of the Hub and the service."""
    faults: dict[str, Fault] = {
        piece: partial(killed, piece=piece)
        for piece in ("hub", "proxy", "slurmctld", "slurmdbd", "mariadbd", "slapd")
    }
    faults["service"] = partial(service_stopped, service=service)
    faults["own node"] = own_node_killed
    faults["drained node"] = drained
    faults["clock step"] = partial(clock_stepped, clock=clock)
    faults["full disk"] = disk_full
    lengths = {"30 s": 30.0, "90 s": 90.0, "5 min": 300.0}
    all_rows = {
        f"work: {name}, {length}": (fault, seconds)
        for length, seconds in lengths.items()
        for name, fault in faults.items()
    }
    return {**all_rows, "work: cut, 30 s": (cut, 30.0), "work: cut, 15 min": (cut, 900.0)}
