"""A run is one session of the Hub and one array of Slurm, on the real demo: from its start to its
end, its stop, and a restart of the Hub."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from api_client import Caller
from hub_client import Person, wait_until
from jobs import Row, cpu_nodes_held, living_jobs, nothing_left
from outages import without
from played_points import played_python

ID = "5e2f3c1a-0b7d-4c8e-9a6f-{:012d}"  # each launch is another run, on the same server
SERVER = "run-5e2f3c1a0b7d4c8e9a6f"
RUN = {"name": "rates", "source": "train.py", "folder": "/tmp/runs/rates"}
NUMBERS = itertools.count(1)
# In the place of an environment's Python: each point sleeps for the seconds in a file, and some
# fail.
PYTHON = """#!/bin/bash
echo "point $SLURM_ARRAY_TASK_ID of $PORTAL_RUN"
sleep "$(cat "${0%/bin/*}/seconds")"
exit $((SLURM_ARRAY_TASK_ID % 2 * ODD))
"""


class Points:
    """Environments whose program of a point is played: "points", and "odd-points" with failures."""

    def __init__(self, folders: list[Path]) -> None:
        self.folders = folders
        self.take(0)

    def take(self, seconds: float) -> None:
        """Make each point take so long."""
        for folder in self.folders:
            (folder / "seconds").write_text(f"{seconds}\n")


@pytest.fixture(scope="module")
def points(demo: Any) -> Iterator[Points]:
    with (
        played_python(demo, "points", PYTHON.replace("ODD", "0")) as all_well,
        played_python(demo, "odd-points", PYTHON.replace("ODD", "1")) as half,
    ):
        yield Points([all_well, half])


@pytest.fixture
def launch(demo: Any, ada: Person, points: Points) -> Iterator[Callable[..., None]]:
    """``launch(points, environment)``: a run of ada's, two points at once."""

    def start(count: int, environment: str = "points") -> None:
        run = {**RUN, "id": ID.format(next(NUMBERS)), "points": count, "at_once": 2}
        resources = {"cpus": 1, "memory": "100M", "time": "0:10:00", "partition": "cpu"}
        answer = ada.launch({"environment": environment, **resources, "run": run}, SERVER)
        # 502: its points failed before the Hub answered.
        assert answer.status_code in (201, 202, 502), answer.text

    yield start
    ada.stop(SERVER)
    nothing_left(demo, "ada")


def newest(ada: Person) -> dict[str, Any]:
    """Return the run's session, as the service tells of it."""
    with Caller(ada.url, "ada") as caller:
        items = caller.items("sessions")
    return max(
        (item for item in items if item["server"] == SERVER),
        key=lambda item: float(item["submitted_at"]),
    )


def ended(ada: Person) -> dict[str, Any]:
    """Wait until the run's session has ended; return its ending."""

    def ending() -> Any:
        item = newest(ada)
        return item["ending"] if item["state"] == "ended" else None

    return dict(wait_until("the run has ended", ending, 120))


def running(demo: Any) -> list[Row]:
    return [job for job in living_jobs(demo, "ada") if job.state == "RUNNING"]


def test_it_runs_until_the_last_task_has_ended(
    demo: Any, ada: Person, points: Points, launch: Callable[..., None]
) -> None:
    points.take(4)
    launch(5)
    wait_until("two tasks run", lambda: len(running(demo)) == 2)
    job_id = running(demo)[0].id.partition("_")[0]
    ada.wait_ready(SERVER)
    seen = [job for job in wait_until("the first two have ended", lambda: _later(demo)) if job.id]
    assert {job.id.partition("_")[0] for job in seen} == {job_id}
    assert len(running(demo)) <= 2 and ada.server(SERVER).get("ready")
    item = newest(ada)
    assert (item["job_id"], item["state"], item["has_page"]) == (job_id, "running", False)
    assert item["environment_title"] == "Run rates of Points"
    with Caller(ada.url, "ada") as caller:
        mine = [job for job in caller.items("jobs") if job["id"].startswith(f"{job_id}_")]
    assert mine and {(job["session_id"], job["mine"]) for job in mine} == {(item["id"], True)}
    ending = ended(ada)
    assert (ending["code"], ending["words"]) == (
        "finished",
        "The run has finished: 5 of 5 points succeeded.",
    )
    wait_until("its server is gone", lambda: not ada.server(SERVER).get("ready"))


def _later(demo: Any) -> list[Row]:
    """Return the living jobs once one of the last tasks runs."""
    jobs = living_jobs(demo, "ada")
    return jobs if any(job.id.endswith(("_2", "_3")) for job in jobs) else []


def test_its_ending_has_the_numbers(
    ada: Person, points: Points, launch: Callable[..., None]
) -> None:
    points.take(1)
    launch(5, "odd-points")
    ending = ended(ada)
    assert ending["code"] == "failed"
    assert ending["words"] == "The run has ended: 3 of 5 points succeeded, 2 failed."


def test_one_that_is_over_at_once_has_finished(
    ada: Person, points: Points, launch: Callable[..., None]
) -> None:
    points.take(0)
    launch(1)
    assert ended(ada)["words"] == "The run has finished: 1 of 1 point succeeded."


def test_an_environment_without_the_program_says_so(
    ada: Person, launch: Callable[..., None]
) -> None:
    """The folder of the run does not exist, so the program fails if it is there."""
    launch(5, "python-venv")
    ending = ended(ada)
    assert ending["code"] == "failed" and "0 of 5 points succeeded, 5 failed." in ending["words"]


def test_a_stop_ends_all_tasks(
    demo: Any, ada: Person, points: Points, launch: Callable[..., None]
) -> None:
    points.take(300)
    launch(5)
    wait_until("two tasks run", lambda: len(running(demo)) == 2)
    ada.wait_ready(SERVER)
    started = {job.id for job in running(demo)}
    ada.api("DELETE", ada.server_path(SERVER))
    seen = set()

    def over() -> bool:
        jobs = running(demo)
        seen.update(job.id for job in jobs)
        return not living_jobs(demo, "ada")

    wait_until("no task is left", over)
    assert seen <= started, "others started in the place of those that were stopped"
    ending = ended(ada)
    assert (ending["code"], ending["words"]) == ("stopped", "You stopped the run.")


def test_a_task_is_cancelled_alone(
    demo: Any, ada: Person, points: Points, launch: Callable[..., None]
) -> None:
    points.take(300)
    launch(3)
    wait_until("two tasks run", lambda: len(running(demo)) == 2)
    ada.wait_ready(SERVER)
    task = running(demo)[0].id
    with Caller(ada.url, "ada") as caller:
        wait_until("the service sees it", lambda: task in str(caller.items("jobs")))
        answer = caller.post(f"jobs/{task}/cancel", json={})
        assert answer.status_code == 200, answer.text
    wait_until("the last task runs", lambda: len({job.id for job in running(demo)} - {task}) == 2)
    assert ada.server(SERVER).get("ready")
    ada.stop(SERVER)


def test_it_waits_and_is_followed_by_the_next_hub(
    demo: Any, ada: Person, points: Points, launch: Callable[..., None]
) -> None:
    points.take(15)
    with cpu_nodes_held(demo):
        launch(2)
        wait_until("it waits", lambda: [job.state for job in living_jobs(demo, "ada")])
        wait_until("its session waits", lambda: newest(ada)["state"] == "pending")
        with without(demo, "hub"):
            (job,) = living_jobs(demo, "ada")
            assert job.state == "PENDING" and "_[0-1" in job.id
    wait_until("it runs", lambda: running(demo))
    wait_until("the Hub has noticed", lambda: newest(ada)["state"] == "running")
    assert newest(ada)["job_id"] == job.id.partition("_")[0]
    assert ended(ada)["code"] == "finished"
