"""A class of two hundred: its instructor presses "Start all", with the stub in place of Lab.

The peers launch as many sessions at once, in the same run: stock batchspawner through its own Hub,
with the same visitors meanwhile; for the floor, without visitors, a no-op spawner and plain
``sbatch``.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from api_client import Caller

from tests.support.demo.hub_client import PASSWORD, Person

from .cluster import CLASS_PARTITION, HERE, ROOT, STUDENTS, TEACHER, Cluster, NotMeasured, wait_for
from .hub import BenchHub, bench_hub
from .report import Row
from .startup import PATIENCE as STOCK_PATIENCE
from .startup import Run, plain, through_hub, told

WHAT = f"A class of {len(STUDENTS)}, from 'Start all'"
NAME = "bench"
_STOCK = "batchspawner 1.3.0"
PATIENCE = 300.0  # seconds until all are ready
_LATE = 0.5  # seconds: limit for a login or a page meanwhile
_PAGES = ("/hub/home", "/services/portal/", f"/services/portal/courses/{NAME}/board")
_PAGES_OF_STOCK = ("/hub/home", "/hub/token", "/hub/home")  # as many
ROUNDS = 3
_ALL = (STUDENTS, CLASS_PARTITION)


def measure(cluster: Cluster) -> list[Row]:
    """Return the rows, medians of the rounds; takes some minutes."""
    rounds = [_round(cluster) for _ in range(ROUNDS)]
    last, peer, floor, late, late_at_stock = (
        statistics.median(column)
        for column in zip(
            *((max(turn.ours.seconds), turn.peer, turn.floor, *turn.late) for turn in rounds),
            strict=True,
        )
    )
    failed = sum(turn.ours.failed for turn in rounds)
    return [
        Row(
            f"{WHAT}: all are ready",
            last,
            "s",
            _STOCK,
            peer,
            floor,
            "at most 1.2 x floor (no-op spawner + plain sbatch), 3 x faster than peer",
            not failed and last <= 1.2 * floor and 3 * last <= peer,
        ),
        Row(
            f"{WHAT}: failed or refused (429)",
            failed,
            "sessions",
            _STOCK,
            sum(turn.stock.failed for turn in rounds),
            0,
            "0",
            failed == 0,
        ),
        Row(
            f"{WHAT}: logins and pages meanwhile, 95th percentile",
            late,
            "s",
            _STOCK,
            late_at_stock,
            goal=f"under {_LATE}",
            met=late < _LATE,
        ),
    ]


@dataclass
class _Round:
    """Start of the class in each of the ways, and the 95th percentiles of the visitors' waiting
    times (seconds; with ours, with stock)."""

    noop: Run
    slurm: Run
    ours: Run
    stock: Run
    late: tuple[float, float]

    @property
    def floor(self) -> float:
        """Seconds of the no-op spawner plus those of plain ``sbatch``."""
        return max(self.noop.seconds) + max(self.slurm.seconds)

    @property
    def peer(self) -> float:
        """Seconds until the last session of stock batchspawner, of those that become ready."""
        return max(self.stock.seconds, default=STOCK_PATIENCE)


def _round(cluster: Cluster) -> _Round:
    slurm = told("plain sbatch", plain(cluster, *_ALL))
    # Meanwhile, Slurm ends those jobs.
    noop = told("no-op spawner", through_hub(cluster, "noop", *_ALL))
    ours, waited = start_all(cluster)
    told("start all", ours)
    if not (noop.seconds and slurm.seconds and ours.seconds):
        raise NotMeasured(f"no session became ready: {noop.words or slurm.words or ours.words}")
    waited_at_stock: list[float] = []

    @contextlib.contextmanager
    def visited(hub: BenchHub) -> Iterator[None]:
        with _others(hub, _PAGES_OF_STOCK) as waits:
            yield
        waited_at_stock.extend(waits)

    stock = told("stock batchspawner", through_hub(cluster, "stock", *_ALL, beside=visited))
    late = percentile(waited), percentile(waited_at_stock)
    turn = _Round(noop, slurm, ours, stock, late)
    last = max(ours.seconds)
    print(f"  {last / turn.floor:.2f} x floor, stock needs {turn.peer / last:.2f} x", flush=True)
    print(f"  pages {late[0]:.2f} s, at stock {late[1]:.2f} s", flush=True)
    return turn


def percentile(waits: Sequence[float]) -> float:
    """Return the 95th percentile."""
    return statistics.quantiles(waits, n=20)[-1]


def start_all(cluster: Cluster, **settings: str) -> tuple[Run, list[float]]:
    """Return the run, in seconds from the press of the button, and others' waiting times."""
    with bench_hub(cluster, "course", STUDENTS, CLASS_PARTITION, **settings) as hub:
        _make_course(cluster, hub)
        with Caller(hub.url, TEACHER) as teacher, _others(hub) as waits:
            before = hub.cpu_seconds()
            progress, ready = class_of(teacher, NAME, PATIENCE, 0.5)
            cpu = hub.cpu_seconds() - before
        words = "; ".join(
            f"{entry['number']} x {entry['words']}" for entry in progress["report"]["failures"]
        )
        return Run(ready, len(STUDENTS) - len(ready), 0, cpu, words=words), list(waits)


def class_of(
    teacher: Caller, course: str, patience: float, pause: float
) -> tuple[dict[str, Any], list[float]]:
    """Press "Start all", and wait for the end of the start. Return its progress, and the seconds
    until each session that became ready."""
    response = teacher.post(f"courses/{course}/starts", json={"kind": "all"})
    if response.status_code != 202:
        raise NotMeasured(f"the start was refused: {response.status_code} {response.text}")
    address = f"courses/{course}/starts/{response.json()['id']}"

    def over() -> Any:
        progress = teacher.get(address).json()
        return progress["report"]["left"] == 0 and progress

    progress = wait_for("the class", over, patience, pause)
    began = progress["start"]["asked_at"]
    return progress, [seat["ready_at"] - began for seat in progress["seats"] if seat["ready_at"]]


def _make_course(cluster: Cluster, hub: BenchHub) -> None:
    today = datetime.date.today()
    course = {
        "name": NAME,
        "title": "A class",
        "environment": "stub",
        "default": {"cpus": 1, "memory": "100M", "time": "0:30:00", "partition": CLASS_PARTITION},
        "begins": str(today - datetime.timedelta(days=1)),
        "ends": str(today + datetime.timedelta(days=1)),
    }
    members = {"instructors": [TEACHER], "students": list(STUDENTS)}
    file = hub.place / "course.yaml"
    file.write_text(json.dumps({"course": course, "members": members}))
    portal = [sys.executable, "-m", "portal", "courses", "import", "--approved"]
    argv = ["env", f"--chdir={hub.place}", *portal, f"-f={HERE / 'hub_config.py'}", str(file)]
    done = subprocess.run(
        cluster.running.command(argv, "portal", hub.environment),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotMeasured(f"the course was not made: {done.stdout}{done.stderr[-500:]}")


@contextlib.contextmanager
def _others(hub: BenchHub, pages: Sequence[str] = _PAGES) -> Iterator[list[float]]:
    """Yield the list of another visitor's waiting times for logins and pages, in seconds."""
    waits: list[float] = []
    enough = threading.Event()
    # Made once: creating a client of httpx takes 50 ms of CPU, which is not part of a login.
    teacher, visitor = Person(hub.url, TEACHER), Person(hub.url, STUDENTS[0])

    def go_on() -> None:
        while not enough.is_set():
            visitor.http.cookies.clear()
            began = time.perf_counter()
            if not visitor.login(PASSWORD).is_success:
                waits.append(float("inf"))
            waits.append(time.perf_counter() - began)
            for page in pages:
                began = time.perf_counter()
                with contextlib.suppress(httpx.HTTPError):
                    if teacher.http.get(page).status_code != 200:
                        waits.append(float("inf"))
                waits.append(time.perf_counter() - began)
            enough.wait(0.2)

    for page in pages:
        teacher.http.get(page)
    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield waits
    finally:
        enough.set()
        thread.join(60)
