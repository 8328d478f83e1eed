"""``python -m tests.benchmarks.kills [--only ROW,…] [--home DIR]``, as root: start a class of
thirty while a process of the site is killed with -9; a row for each process. Rows named "work: …"
are faults of 30 s to 15 min while a run's points end and a kernel's cell prints (work_kills.py):
lost and twice must be 0, and what the portal shows true within 30 s after the end of the fault.
``--only short`` is those of 30 s, ``--only work`` all of them.

``--home`` names a running demo; without it, a demo is started. Sessions are real JupyterLabs. The
exit status is 1 if a student was left without a session or was started twice.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import httpx
from api_client import Caller
from stepping_clock import WallClock

from portal.demo.home import Home
from portal.demo.running import Running

from . import work_kills
from .cluster import ROOT, NotMeasured, wait_for

STUDENTS = tuple(f"student{n:02}" for n in range(1, 31))
NAME = f"kills-{secrets.token_hex(2)}"
COURSE, SERVER = f"courses/{NAME}", f"course-{NAME}"
PATIENCE = 420.0  # seconds until a start is over
_AWAY = 8.0  # seconds until the killed process is started again
_WRITTEN = 8.0  # seconds; SAVE_MAX_WAIT in slurmctld's state_save.c is five
_LIVING = ("PENDING", "RUNNING", "CONFIGURING")


@dataclass(frozen=True)
class Kill:
    """Kill of a ``piece`` of the demo ``after`` seconds, restarted ``away`` seconds later (None:
    not during this start). "service" is the Hub's child, which the Hub itself restarts."""

    piece: str
    after: float
    away: float | None = _AWAY


ROWS = {
    "nothing": None,
    "hub": Kill("hub", 3),
    "proxy": Kill("proxy", 3),
    "service": Kill("service", 3),
    "slurmctld early": Kill("slurmctld", 0.7),
    "slurmctld early, back at once": Kill("slurmctld", 0.7, 0),
    "slurmctld late": Kill("slurmctld", 6),
    "slurmdbd": Kill("slurmdbd", 2),
    "mariadbd": Kill("mariadbd", 2),
    "slapd": Kill("slapd", 1),
    "slurmd of gpu01, never back": Kill("gpu01", 0.3, None),
    "slurmd of gpu01": Kill("gpu01", 3),
}


@dataclass
class Outcome:
    """Outcome of a start of the class; times in seconds from the press of the button."""

    ready: int
    last: float | None
    running: int  # students with a living job at the end
    failures: list[str]
    twice: dict[str, int] = field(default_factory=dict)  # most living jobs of one student

    @property
    def good(self) -> bool:
        return self.ready == self.running == len(STUDENTS) and not self.twice


class Site:
    """Running demo with a course of thirty."""

    def __init__(self, running: Running, clock: WallClock | None = None) -> None:
        state = running.state
        if state is None:
            raise NotMeasured("No demo runs there.")
        self.running, self.url, self.clock = running, str(state["url"]), clock
        self.barbara, self.grace = Caller(self.url, "barbara"), Caller(self.url, "grace")

    def make(self) -> None:
        """Make the course and approve it."""
        today = date.today()
        values = {
            "name": NAME,
            "title": "A class that is disturbed",
            "environment": "jupyterlab",
            "default": {"cpus": 1, "memory": "1G", "time": "0:30:00", "partition": "gpu"},
            "account": "dl101",
            "begins": str(today - timedelta(days=1)),
            "ends": str(today + timedelta(days=30)),
        }
        _good(self.barbara.post("courses", json={"course": values}))
        course = self.barbara.get(COURSE).json()
        if course["state"] != "approved":
            asked = _good(self.barbara.post(f"{COURSE}/submit", json={"number": course["number"]}))
            body = {"number": asked.json()["number"]}
            _good(self.grace.post(f"{COURSE}/approve", json=body))
        _good(self.barbara.post(f"{COURSE}/roster", json={"text": "\n".join(STUDENTS)}))

    def jobs(self) -> Counter[str]:
        """Count the course's living jobs by student. Raises if Slurm does not answer."""
        output = self.running.run(["squeue", "-h", "-o", "%u %T %k"], timeout=30).stdout
        rows = [line.split(None, 2) for line in output.splitlines()]
        return Counter(user for user, state, note in rows if _ours(state, note))

    def start(self, kill: Kill | None) -> Outcome:
        """Start the class, carry out the kill, and wait until the start is over."""
        began = time.monotonic()
        response = _good(self.barbara.post(f"{COURSE}/starts", json={"kind": "all"}))
        most: Counter[str] = Counter()
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(most, over))
        watch.start()
        try:
            if kill is not None:
                time.sleep(max(0.0, kill.after - (time.monotonic() - began)))
                self._kill(kill)
            path = f"{COURSE}/starts/{response.json()['id']}"
            progress = wait_for("the start is over", lambda: self._ended(path), PATIENCE)
        except NotMeasured:
            progress = self._detail(path)
        finally:
            over.set()
            watch.join()
        time.sleep(2)
        jobs = wait_for("Slurm answers", self._jobs_or_none, 60)
        report = progress.get("report", {})
        return Outcome(
            ready=report.get("ready", 0),
            last=report.get("last"),
            running=sum(1 for number in jobs.values() if number),
            failures=[f"{row['number']} x {row['words']}" for row in report.get("failures", ())]
            or [f"{seat['person']}: {seat['state']}" for seat in _not_ready(progress)],
            twice={name: number for name, number in most.items() if number > 1},
        )

    def stop_all(self) -> None:
        """End all sessions of the course."""
        _good(self.barbara.post(f"{COURSE}/stop-all"))
        wait_for("all are stopped", lambda: self._jobs_or_none() == Counter(), 180, every=1)
        # Until slurmctld has saved their ends, killing it would bring them back as running.
        time.sleep(_WRITTEN)

    def _watch(self, most: Counter[str], over: threading.Event) -> None:
        while not over.wait(0.5):
            for name, number in (self._jobs_or_none() or {}).items():
                most[name] = max(most[name], number)

    def _jobs_or_none(self) -> Counter[str] | None:
        with contextlib.suppress(Exception):
            return self.jobs()
        return None

    def _detail(self, path: str) -> dict[str, Any]:
        with contextlib.suppress(httpx.HTTPError, ValueError):
            response = self.barbara.get(path)
            if response.status_code == 200:
                return dict(response.json())
        return {}

    def _ended(self, path: str) -> Any:
        progress = self._detail(path)
        return progress if progress and progress["start"]["ended_at"] else None

    def _kill(self, kill: Kill) -> None:
        if kill.piece == "service":
            os.kill(self.service(), signal.SIGKILL)
            return
        self.running.control("kill", kill.piece)
        if kill.away is not None:
            time.sleep(kill.away)
            self.running.control("start", kill.piece)

    def service(self) -> int:
        """Return the process id of the web service, the Hub's child."""
        hub = int((self.running.home.run / "hub.process").read_text().split()[0])
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                args = (entry / "cmdline").read_bytes().split(b"\0")
                if parent == hub and b"service" in args:
                    return int(entry.name)
        raise NotMeasured("The web service is not there.")


def _not_ready(progress: dict[str, Any]) -> list[dict[str, Any]]:
    return [seat for seat in progress.get("seats", ()) if seat["state"] != "ready"]


def _ours(state: str, note: str) -> bool:
    return state in _LIVING and note.endswith(f":{SERVER}")


def _good(response: httpx.Response) -> httpx.Response:
    if not response.is_success:
        raise NotMeasured(f"{response.request.url}: {response.status_code} {response.text[:300]}")
    return response


@contextlib.contextmanager
def _site(home: str, wanted: list[str]) -> Iterator[Site]:
    """Have the site while the block runs, with the clock and the disk that ``wanted`` rows need."""
    if home:
        yield Site(Running(Home.find(home)))
        return
    from conftest import a_home, started_demo

    from .cluster import free_port

    with a_home() as place:
        stepped = any("clock step" in name for name in wanted)
        clock = work_kills.give_clock(place / "clock") if stepped else None
        with started_demo(f"--port={free_port()}", place=place) as demo:
            if any("full disk" in name for name in wanted):
                work_kills.give_small_disk(demo)
            yield Site(demo, clock)


def _again(site: Site, kill: Kill | None) -> None:
    """Restart pieces that a row left dead, and stop all sessions."""
    if kill is not None and kill.away is None:
        site.running.control("start", kill.piece)
        ready = _node_ready(site, kill.piece)
        wait_for("the node is back", ready, 120, every=1)
    site.stop_all()


def _node_ready(site: Site, node: str) -> Callable[[], bool]:
    def ready() -> bool:
        output = site.running.run(["sinfo", "-h", "-n", node, "-o", "%T"], check=False).stdout
        return output.split("\n")[0] in ("idle", "mixed", "allocated")

    return ready


def _work(site: Site, faults: list[tuple[str, work_kills.Fault, float]]) -> bool:
    """Carry out faults while kernels and runs work; print a row for each. Return True if all is
    good."""
    if not faults:
        return True
    work, good = work_kills.Work(site.running), True
    with work.session():
        for name, fault, seconds in faults:
            try:
                judged = work.row(fault, seconds)
            except (NotMeasured, AssertionError, httpx.HTTPError) as error:
                print(f"| {name} | not measured: {error} |", flush=True)
                good = False
                continue
            good = good and judged.good
            verdict = "good" if judged.good else "bad"
            lost, twice = len(judged.lost), len(judged.twice)
            print(
                f"| {name} | {verdict} | lost {lost} | twice {twice} | {judged.words} |", flush=True
            )
            time.sleep(_WRITTEN)
    return good


def main() -> int:
    """Run the rows and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.kills", description=__doc__)
    parser.add_argument("--only", default=",".join(ROWS).replace(", ", "; "))
    parser.add_argument("--home", default="", help="a demo that runs already")
    args = parser.parse_args()
    os.chdir(ROOT)
    groups = {"short": "30 s", "work": ""}
    names = list(work_kills.rows(int, None))
    if args.only in groups:
        wanted = [name for name in names if name.endswith(groups[args.only])]
    else:
        wanted = [name.replace("; ", ", ") for name in args.only.split(",")]
    lines, good = [], True
    with _site(args.home, wanted) as site:
        faults = work_kills.rows(site.service, site.clock)
        good = _work(site, [(name, *faults[name]) for name in wanted if name in faults])
        wanted = [name for name in wanted if name not in faults]
        if wanted:
            site.make()
        for name in wanted:
            kill = ROWS[name]
            run = site.start(kill)
            good = good and run.good
            last = "" if run.last is None else f"{run.last:.0f} s"
            twice = f"twice: {run.twice}" if run.twice else ""
            notes = "; ".join([*run.failures, twice]).strip("; ")
            lines.append(
                f"| {name} | {run.ready} of {len(STUDENTS)} | {run.running} | {last} | {notes} |"
            )
            print(lines[-1], flush=True)
            _again(site, kill)
    if not lines:
        return int(not good)
    print("\n| killed | ready | with a job at the end | last | |\n|---|---|---|---|---|")
    print("\n".join(lines))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
