"""The service, the Hub or slurmctld away while workers of a cluster and ranks of a run work."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from api_client import Caller
from hub_client import Person, wait_until, with_session
from jobs import living_jobs, nothing_left
from notebook_kernel import NotebookKernel
from terminal import terminal
from web_service import kill_service

# Each task says that it ran: one that runs twice is in the file twice.
MADE = """
import os, time
from pathlib import Path
from portal_cluster import dask
cluster = dask(2, cpus=1, memory="400M", time="0:20:00", partition="gpu", gpus=0)
client = cluster.client()
client.wait_for_workers(2, timeout=120)
print(cluster._about["socket"])
"""
WORK = """
ran, over = Path.home() / "outage-tasks", Path.home() / "outage-over"
def task(number):
    with ran.open("a") as file:
        file.write(f"{number}\\n")
    time.sleep(0.2)
    return number
first = sorted(worker["name"] for worker in client.scheduler_info()["workers"].values())
print("at work", flush=True)
futures = []
while not over.exists():
    futures += client.map(task, range(len(futures), len(futures) + 10))
    client.gather(futures[-10:])
values = client.gather(futures)
last = sorted(worker["name"] for worker in client.scheduler_info()["workers"].values())
lines = sorted(map(int, ran.read_text().split()))
wanted = list(range(len(values)))
odd = [number for number in {*wanted, *lines} if lines.count(number) != wanted.count(number)]
print(values == wanted, odd, first == last)
"""
RANKS = """
import os, time
from pathlib import Path
place = Path.home()
with (place / "outage-ranks").open("a") as file:
    file.write(os.environ["RANK"] + " ")
while not (place / "outage-over").exists():
    time.sleep(0.2)
print("done")
"""
ASKED = "--partition cpu --gpus 0 --nodes 2 --ranks 2 --cpus 2 --memory 512M --time 0:20:00"


@pytest.fixture
def ada(demo: Any, person: Callable[[str], Person]) -> Iterator[Person]:
    nothing_left(demo, "ada")
    options = {"environment": "python-venv", "partition": "gpu", "gpus": 0, "time": "1:00:00"}
    yield from with_session(person("ada"), options)
    demo.run(["scancel", "--user=ada"], user="ada")  # a test that failed leaves ranks at work
    nothing_left(demo, "ada")


def answered(caller: Caller) -> Any:
    """Return the user's replica sets; None while the service is away."""
    with contextlib.suppress(httpx.HTTPError, AssertionError, ValueError):
        answer = caller.get("replica-sets")
        return answer.json() if answer.status_code == 200 else None


def newest_run(caller: Caller) -> dict[str, Any]:
    return dict(max(caller.items("runs"), key=lambda run: run["created_at"]))


def test_workers_and_ranks_outlive_outages(demo: Any, ada: Person) -> None:
    terminal(ada, "rm -f ~/outage*")
    kernel = NotebookKernel.start(ada)
    kernel.install("distributed")
    model = {"type": "file", "format": "text", "content": RANKS}
    assert ada.session("PUT", "api/contents/outage.py", json=model).is_success
    wait_until(
        "the run is submitted",
        lambda: "Run 'outage" in terminal(ada, f"portal-run outage.py --name outage {ASKED}"),
    )
    made = kernel.run(MADE, 150)
    assert (made.status, made.error) == ("ok", ""), made
    # Another account on the node reaches neither the dashboard's socket nor its folder.
    socket = made.printed.strip()
    for place in (socket, socket.rpartition("/")[0]):
        tried = demo.run(["ls", place], user="barbara", check=False)
        assert tried.returncode and "Permission denied" in tried.stderr, tried
    cell = kernel.send(WORK)
    kernel.until_printed(cell, "at work", 30)
    wait_until("the ranks began", lambda: len(terminal(ada, "cat ~/outage-ranks").split()) == 4)
    caller = Caller(demo.url, "ada")
    jobs = living_jobs(demo, "ada")
    assert len(jobs) == 4, (jobs, "the session, two workers, the ranks")

    kill_service(demo)
    time.sleep(2)
    wait_until("the service is back", lambda: answered(caller))
    demo.control("kill", "slurmctld")
    # Longer than a look of the reconciler, which must not take silence for workers that are gone.
    time.sleep(12)
    state = answered(caller)
    assert state and state["items"][0]["replicas"] == 2, state
    demo.control("start", "slurmctld")
    demo.control("kill", "hub")
    time.sleep(2)
    demo.control("start", "hub")
    wait_until("the Hub and the service are back", lambda: answered(caller))
    ada.wait_ready()

    (item,) = caller.get("replica-sets").json()["items"]
    assert (item["work"], item["replicas"]) == ("dask-worker", 2)
    wait_until(
        "the page has both workers",
        lambda: len(caller.get("replica-sets").json()["items"][0]["running"]) == 2,
    )
    assert newest_run(caller)["ended_at"] is None
    assert living_jobs(demo, "ada") == jobs, "nothing was lost, and nothing runs twice"
    terminal(ada, "touch ~/outage-over")
    ran = kernel.wait(cell, 60)
    assert (ran.status, ran.printed.splitlines()[-1:]) == ("ok", ["True [] True"]), ran
    run = wait_until(
        "the run has ended", lambda: (run := newest_run(caller))["ended_at"] and run, timeout=60
    )
    (point,) = caller.get(f"runs/{run['id']}/points").json()["items"]
    assert point["state"] == "succeeded", point
    assert sorted(terminal(ada, "cat ~/outage-ranks").split()) == ["0", "1", "2", "3"]
    kernel.run("cluster.close()")
    kernel.leave()
    kernel.shut_down()
    terminal(ada, "rm -f ~/outage*")


def test_pages_while_the_database_is_away(demo: Any, person: Callable[[str], Person]) -> None:
    lists = ("benchmarks", "runs", "replica-sets")
    pages = ("benchmarks", "runs", "sessions")
    someone, caller = person("ada"), Caller(demo.url, "ada")
    file = demo.home.demo / "hub/portal.sqlite"
    away = file.with_name("portal.sqlite.away")
    file.rename(away)
    try:
        for path in lists:
            wait_until(f"{path} is refused", lambda p=path: caller.get(p).status_code == 503)
            error = caller.get(path).json()["error"]
            assert error["code"] == "database_unavailable"
            assert error["message"].startswith("The portal's database cannot be opened")
        for path in pages:
            answer = someone.http.get(f"/services/portal/{path}")
            assert answer.status_code in (200, 503), (path, answer.status_code)
            assert "Traceback" not in answer.text and "Internal Server Error" not in answer.text
    finally:
        away.rename(file)
    for path in lists:
        wait_until(f"{path} is back", lambda p=path: caller.get(p).status_code == 200)
