"""Points that a real Slurm starts again: past their time limit, and after the failure of a node.

It takes three minutes, nearly all of them waiting: Slurm counts time limits in minutes. All of its
runs go on at the same time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from machine import patience
from run_site import PlayedService, RunSite, played_service, wait_until
from slurm_runs import Begun, Place
from small import SmallSlurm
from small_slurm import started

from portal.models.cluster.cluster import JobState
from portal.models.session.run import PointState, RunPoint
from portal.work.run.endings import ended_point
from spawners.lifecycle.job_watch import JobWatch

ATTEMPTS = 3  # of the training, at least
STEPS = 75  # of a second each: three times what a minute has room for before Slurm's signal
TRAINING = """
import json, random, time
from portal_checkpoint import resumed
random.seed(7)
state = {"loss": 1.0}
for step in resumed(range(STEPS), state=state):
    state["loss"] += random.gauss(0, 1) / (1 + state["loss"] ** 2)
    print("step", step, flush=True)
    time.sleep(PAUSE)
print(json.dumps(state))
"""
FAILING = """
import time
from portal_checkpoint import resumed
seen = []
for step in resumed(range(40), minutes=0, seen=seen):
    seen.append(step)
    print("step", step, flush=True)
    time.sleep(0.5)
print("seen", seen == list(range(40)))
"""
DEAF = "print('on', flush=True)\nimport time\ntime.sleep(600)\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    root = tmp_path_factory.mktemp("requeued")
    with started(SmallSlurm(root / "slurm", requeue_after=5)) as slurm:
        place = Place(slurm, root)
        yield place
        place.cluster.close()


@pytest.fixture(scope="module")
def service() -> Iterator[PlayedService]:
    with played_service() as service:
        yield service


@pytest.fixture(scope="module")
def runs(place: Place, service: PlayedService) -> dict[str, Begun]:
    """The runs, all begun at once: "training", "failing" and "deaf". They take their minutes."""
    site = RunSite(place.root, service)
    text = TRAINING.replace("STEPS", str(STEPS))
    scripts = {"training": text.replace("PAUSE", "1"), "failing": FAILING, "deaf": DEAF}
    plans = {name: site.plan(site.script(scripts[name], f"{name}.py")) for name in scripts}
    begun = {
        "training": place.begin(
            site, plans["training"], resumes=9, partition="cpu", time="0:01:00"
        ),
        "failing": place.begin(site, plans["failing"], resumes=0, partition="gpu", time="0:10:00"),
        "deaf": place.begin(site, plans["deaf"], resumes=9, partition="cpu", time="0:01:00"),
    }
    (site.work / "plain.py").write_text(text.replace("PAUSE", "0"))
    return begun


def of_run(service: PlayedService, run: Begun) -> list[dict[str, Any]]:
    return [report for report in service.reports if report["job"].startswith(f"{run.job}_")]


async def ended(place: Place, run: Begun, seconds: float) -> Any:
    """The run's job at its end, as the Hub sees it; it must not look ended before."""
    watch = JobWatch(place.cluster, run.job, place.slurm.user, logging.getLogger("portal-test"))
    deadline = time.monotonic() + patience(seconds)
    while time.monotonic() < deadline:
        job, over = await watch.job_since(time.monotonic())
        if over:
            return job
        await asyncio.sleep(1)
    raise AssertionError(f"job {run.job} has not ended: {watch.job}")


async def test_a_point_whose_node_fails_is_executed_again(
    place: Place, runs: dict[str, Begun], service: PlayedService
) -> None:
    run = runs["failing"]
    wait_until(lambda: run.log().exists() and "step 5\n" in run.log().read_text(), 120)
    node = place.slurm.run("squeue", "-h", "-j", run.job, "-o", "%N").strip()
    place.slurm.run("scontrol", "update", f"nodename={node}", "state=down", "reason=fan")
    job = await ended(place, run, 200)
    place.slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
    assert job.state is JobState.COMPLETED and job.tasks == {JobState.COMPLETED: 1}, job
    assert job.nodes != (node,)
    lines = run.log(2).read_text().splitlines()
    assert lines[-1] == "seen True" and lines[0] != "step 0", "it began at its checkpoint"
    wait_until(lambda: of_run(service, run)[-1]["state"] == "succeeded")
    last = of_run(service, run)[-1]
    assert (last["attempt"], last["point"]) == (2, 0)
    # Accounting has both; the point counts once, as its last attempt ended.
    tasks = await place.cluster.ended_tasks(run.job)
    assert {number: task.state for number, task in tasks.items()} == {0: JobState.COMPLETED}


async def test_a_point_that_saves_nothing_ends_at_its_limit(
    place: Place, runs: dict[str, Begun], service: PlayedService
) -> None:
    run = runs["deaf"]
    job = await ended(place, run, 200)
    assert job.state is JobState.TIMEOUT
    assert not run.log(2).exists(), "it was not executed again"
    wait_until(lambda: of_run(service, run)[-1]["state"] == "failed")
    message = of_run(service, run)[-1]["message"]
    assert message.startswith("The point was stopped: the time limit of its job was reached. It ")
    assert "it had saved no checkpoint" in message


async def test_three_walltimes_end_with_the_loss_of_one(
    place: Place, runs: dict[str, Begun], service: PlayedService
) -> None:
    run = runs["training"]
    job = await ended(place, run, 260)
    assert job.state is JobState.COMPLETED and job.tasks == {JobState.COMPLETED: 1}, job
    logs = [run.log(attempt) for attempt in range(1, 20) if run.log(attempt).exists()]
    assert len(logs) >= ATTEMPTS
    lines = [line for log in logs for line in log.read_text().splitlines()]
    steps = [int(line[5:]) for line in lines if line.startswith("step")]
    assert steps == list(range(STEPS)), "no step is lost, and none is done twice"
    plain = subprocess.run(
        [sys.executable, str(run.plan.source.parent / "plain.py")],
        env={"PYTHONPATH": str(_library())},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(logs[-1].read_text().splitlines()[-1]) == json.loads(
        plain.stdout.splitlines()[-1]
    )
    wait_until(lambda: of_run(service, run)[-1]["state"] == "succeeded")
    reports = of_run(service, run)
    assert reports[-1]["message"] == f"Resumed {len(logs) - 1} times."
    assert {report["state"] for report in reports} == {"waiting", "running", "succeeded"}
    attempts = [report["attempt"] for report in reports]
    assert attempts == sorted(attempts) and attempts[-1] == len(logs)
    point = RunPoint(number=0, started_at=1.0)
    task = (await place.cluster.ended_tasks(run.job))[0]
    assert ended_point(point, task, 2.0).state is PointState.SUCCEEDED


def _library() -> Path:
    from portal_session.kernels.environment import LIBRARY

    return LIBRARY
