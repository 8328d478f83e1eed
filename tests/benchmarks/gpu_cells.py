"""Time for which single cells hold a GPU (``%%gpu``), compared with a session that has one."""

from __future__ import annotations

import re
import statistics
import time

from tests.support.demo.hub_client import Person
from tests.support.demo.notebook_kernel import NotebookKernel

from .cluster import Cluster, NotMeasured, wait_for
from .report import Row

WHAT = "Ten short cells on a GPU in ten minutes"
WHO = "ada"
CELLS, EVERY = 10, 60.0  # seconds from the start of one to that of the next
IDLE = 5
SHARE = 0.2  # of what a session holds
_CELL = f"%%gpu --idle {IDLE}\nsum(number * number for number in range(10**6))"


def measure(cluster: Cluster) -> list[Row]:
    """Return the rows; takes ten minutes, in which a session on CPUs runs a cell each minute."""
    person = Person(str(cluster.state["url"]), WHO)
    if not person.logged_in:
        raise NotMeasured(f"{WHO} could not log in")
    answer = person.launch({"environment": "jupyterlab", "gpus": 0, "time": "1:00:00"})
    if answer.status_code not in (201, 202):
        raise NotMeasured(f"the launch was refused: {answer.text}")
    try:
        person.wait_ready()
        kernel = NotebookKernel.start(person)
        before = _held(cluster)
        began, waits = time.monotonic(), []
        for number in range(CELLS):
            time.sleep(max(0.0, began + number * EVERY - time.monotonic()))
            asked = time.monotonic()
            ran = kernel.run(_CELL)
            if ran.status != "ok":
                raise NotMeasured(f"cell {number + 1} failed: {ran.error}")
            waits.append(time.monotonic() - asked)
        time.sleep(max(0.0, began + CELLS * EVERY - time.monotonic()))
        jobs = {id: held for id, held in _held(cluster).items() if id not in before}
        kernel.leave()
    finally:
        person.stop()
    whole = CELLS * EVERY
    held = float(sum(jobs.values()))
    if len(jobs) != CELLS:
        raise NotMeasured(f"{CELLS} cells had {len(jobs)} jobs")
    return [
        Row(
            f"{WHAT} (%%gpu --idle {IDLE}, one each minute): GPU time held",
            held,
            "s",
            "a session with that GPU",
            whole,
            goal=f"at most {SHARE:.0%} of peer",
            met=held <= SHARE * whole,
        ),
        Row(f"{WHAT}: a cell with its own job, median", statistics.median(waits), "s"),
    ]


def _held(cluster: Cluster) -> dict[str, int]:
    """Return the GPU-seconds of the user's jobs, by id, once none with GPUs runs (sacct(1))."""

    def running() -> str:
        return cluster.run("squeue", "-h", "-u", WHO, "-o", "%i %b")

    wait_for("the jobs' end", lambda: "gpu" not in running(), 60)
    fields = "JobID,ElapsedRaw,AllocTRES"
    out = cluster.run("sacct", "-nPX", "-u", WHO, "-S", "now-20minutes", "-o", fields)
    held = {}
    for line in out.splitlines():
        id, seconds, resources = line.split("|")
        if gpus := re.search(r"gres/gpu=(\d+)", resources):
            held[id] = int(seconds) * int(gpus[1])
    return held
