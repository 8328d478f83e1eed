"""Runs, compared with ``sbatch --array`` and papermill by hand in the same session's terminal."""

from __future__ import annotations

import re
import time
from typing import Any

from nbformat.v4 import new_code_cell, new_notebook

from tests.support.demo.hub_client import Person
from tests.support.demo.terminal import terminal

from .cluster import PARTITION, Cluster, NotMeasured, wait_for
from .job_kernels import in_turn
from .lab import wait_for_none
from .report import Row

WHAT = "A run"
WHO = "ada"
POINTS = 1_000
TASKS = 20  # of the comparison with papermill
EACH = 1.5  # seconds that a point may take beyond papermill
AT_ONCE = 40
SETTLE, WATCHED, PATIENCE = 20.0, 60.0, 120.0  # seconds
_RESOURCES = f"--partition {PARTITION} --cpus 1 --memory 100M --time 0:30:00"
_TIMED = "python3 -c 'import subprocess as s, sys, time; t = time.monotonic(); \
s.run(sys.argv[1:], check=True); print(\"SECONDS\", time.monotonic() - t)'"


def measure(cluster: Cluster) -> list[Row]:
    """Return the rows: 1,000 points submitted, their requests to slurmctld, one point."""
    person = Person(str(cluster.state["url"]), WHO)
    person.launch({"environment": "python-venv", "gpus": 0, "time": "1:00:00"})
    person.wait_ready()
    try:
        terminal(person, "echo 'import time; time.sleep(1500)' >sleep.py")
        _said(person, f"portal-run sleep.py {_RESOURCES}", "Results:")
        _stop(cluster, person)
        return [_submission(cluster, person), _requests(cluster, person), _point(cluster, person)]
    finally:
        person.stop()
        wait_for_none(cluster)


def _submission(cluster: Cluster, person: Person) -> Row:
    def ours() -> float:
        options = f"{_RESOURCES} --at-once 1 {_values(POINTS)}"
        took = _seconds(person, f"{_TIMED} portal-run sleep.py {options}")
        _stop(cluster, person)
        return took

    def peer() -> float:
        array = f"sbatch --array=0-{POINTS - 1}%1 --partition={PARTITION} --mem=100M"
        took = _seconds(
            person, f"{_TIMED} {array} --output=/dev/null --job-name=peer --wrap='sleep 600'"
        )
        cluster.run("scancel", "--name=peer", f"--user={WHO}")
        return took

    by_hand, portal = in_turn(peer, ours)
    return Row(
        f"{WHAT} of {POINTS:,} points submitted",
        portal,
        "s",
        "sbatch --array",
        by_hand,
        goal="at most 1.5 x peer",
        met=portal <= 1.5 * by_hand,
    )


def _requests(cluster: Cluster, person: Person) -> Row:
    """Return the row of the requests to slurmctld, beside those of a run with a single point."""
    rates = []
    for points in (1, POINTS):
        options = f"{_RESOURCES} --at-once {AT_ONCE} {_values(points)}"
        _said(person, f"portal-run sleep.py {options}", "Results:")
        try:
            running = min(points, AT_ONCE)
            wait_for("the points to run", lambda n=running: _tasks(cluster, "R") >= n, PATIENCE)
            time.sleep(SETTLE)
            rates.append(_rate(cluster))
        finally:
            _stop(cluster, person)
    single, many = rates
    return Row(
        f"{WHAT} of {POINTS:,} points, {AT_ONCE} of them running: requests to slurmctld",
        many,
        "per s",
        "a run of a single point",
        single,
        goal="no more than peer",
        met=round(many, 1) <= round(single, 1),
    )


def _rate(cluster: Cluster) -> float:
    """Return the requests to slurmctld per second of the Hub, the service and the user."""
    began, before = time.monotonic(), cluster.requests_of("portal", WHO)
    time.sleep(WATCHED)
    return (cluster.requests_of("portal", WHO) - before) / (time.monotonic() - began)


def _point(cluster: Cluster, person: Person) -> Row:
    """Return the row of a point of a notebook: its task in Slurm, beside one that runs papermill in
    the same environment, one after another."""
    _said(person, "python3 -m pip install --quiet papermill && echo installed", "installed")
    _write(person, "bench.ipynb", "notebook", "json", _notebook())
    command = "python3 -m papermill --no-progress-bar bench.ipynb by-hand.ipynb -p lr 0.2"
    array = f"--array=0-{TASKS - 1}%1 --partition={PARTITION} --mem=100M --output=/dev/null"
    by_hand = _elapsed(cluster, person, f"sbatch {array} --wrap='{command}'", "Submitted")
    options = f"{_RESOURCES} --at-once 1 --set lr=$(seq -s, {TASKS})"
    portal = _elapsed(cluster, person, f"portal-run bench.ipynb {options}", "Results:")
    return Row(
        f"{WHAT}: one point of a notebook, mean of {TASKS}",
        portal,
        "s",
        "papermill by hand",
        by_hand,
        goal=f"at most peer + {EACH} s",
        met=portal <= by_hand + EACH,
    )


def _elapsed(cluster: Cluster, person: Person, command: str, expected: str) -> float:
    """Run a command that submits an array of TASKS; return the mean of its tasks' seconds. Slurm
    counts whole ones, from the second of the start to that of the end, so that the mean is exact
    where a single one is not."""
    _said(person, command, expected)
    job = cluster.run("squeue", "-h", f"--user={WHO}", "-o", "%F %K").splitlines()
    (id,) = {line.split()[0] for line in job if not line.endswith("N/A")}
    shown: list[list[str]] = []

    def accounted() -> bool:
        answer = cluster.run("sacct", "-nXP", f"--jobs={id}", "--format=State,ElapsedRaw")
        shown[:] = [line.split("|") for line in answer.splitlines()]
        return len(shown) == TASKS and not {"PENDING", "RUNNING"} & {row[0] for row in shown}

    wait_for("the tasks to end", accounted, 5 * PATIENCE, 1)
    if {row[0] for row in shown} != {"COMPLETED"}:
        raise NotMeasured(f"tasks of {command} failed: {shown}")
    return sum(int(row[1]) for row in shown) / TASKS


def _values(points: int) -> str:
    """Return the option with so many values, which the shell writes: a terminal takes short lines
    only."""
    return f"--set x=$(seq -s, {points})"


def _notebook() -> dict[str, Any]:
    cells = [
        new_code_cell("lr = 0.1", metadata={"tags": ["parameters"]}),
        new_code_cell("import json"),
        new_code_cell("print(lr)"),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return dict(new_notebook(cells=cells, metadata={"kernelspec": kernel}))


def _write(person: Person, path: str, kind: str, format: str, content: Any) -> None:
    model = {"type": kind, "format": format, "content": content}
    if not person.session("PUT", f"api/contents/{path}", json=model).is_success:
        raise NotMeasured(f"{path} could not be written")


def _seconds(person: Person, command: str) -> float:
    found = re.search(r"SECONDS ([0-9.]+)", said := terminal(person, command))
    if found is None:
        raise NotMeasured(said[-500:])
    return float(found[1])


def _said(person: Person, command: str, expected: str) -> None:
    """Run a command; a session that the portal does not know yet is asked again."""
    said = ""

    def done() -> bool:
        nonlocal said
        said = terminal(person, command)
        return expected in said

    try:
        wait_for("", done, 120, 3)
    except NotMeasured:
        raise NotMeasured(said[-500:]) from None


def _stop(cluster: Cluster, person: Person) -> None:
    """Stop the newest run of the script, and wait until its tasks are gone."""
    terminal(person, "portal-run stop $(portal-run list | grep -o '^sleep[^ ]*' | head -1)")
    wait_for("the points' end", lambda: not _tasks(cluster), PATIENCE)


def _tasks(cluster: Cluster, states: str = "PD,R,CG") -> int:
    """Return the number of tasks of arrays in these states."""
    shown = ("-r", f"-t{states}", f"--user={WHO}", "-o", "%K")
    return sum(name != "N/A" for name in cluster.run("squeue", "-h", *shown).split())
