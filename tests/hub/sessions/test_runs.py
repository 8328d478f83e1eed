"""A run on the real demo: asked for with a session's token, reported by its tasks, followed to its
end by the service."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from api_client import Caller
from hub_client import Person, wait_until, with_session
from jobs import living_jobs, nothing_left, squeue
from played_points import played_python
from remembered import stored
from terminal import session_token

from portal.store import Store
from portal.work.run.tables.schedules import RunScheduleTable

API = "/services/portal/api/v1/"
ID = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f40516"
# In the place of an environment's Python: the first points report their end, the others do not.
PROGRAM = """#!/usr/bin/python3
import json, os, sys, time, urllib.request

assert sys.argv[1:] == ["-I", "-m", "portal_session.runs.point"], sys.argv
run, number = json.loads(os.environ["PORTAL_RUN"]), int(os.environ["SLURM_ARRAY_TASK_ID"])
job = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{number}"

def report(state, **more):
    body = {"point": number, "state": state, "job": job, "attempt": 1, **more}
    for _ in range(30):
        try:
            request = urllib.request.Request(
                os.environ["PORTAL_SERVICE_URL"].rstrip("/") + "/api/v1/session/points",
                json.dumps(body).encode(),
                {"Authorization": "token " + os.environ["JUPYTERHUB_API_TOKEN"],
                 "Content-Type": "application/json"},
            )
            return urllib.request.urlopen(request, timeout=20).read()
        except OSError as error:
            print(error, flush=True)
            time.sleep(1)
    sys.exit("not reported")

report("running", cell=1, cells=2, metrics={"loss": 1.0 / (1 + number)})
if run["name"] == "long":
    time.sleep(300)
go = os.path.dirname(run["folder"]) + "/go"
while run["name"].startswith("gate-") and not os.path.exists(go):
    time.sleep(0.5)
if number == 0:
    report("succeeded", cell=2, cells=2, metrics={"loss": 0.5})
elif number == 1:
    report("failed", metrics={"loss": 0.5}, message="ValueError: the rate is too high, in cell 2.")
sys.exit((0, 1, 0, 3)[number])
"""


@pytest.fixture(scope="module")
def token(demo: Any, person: Callable[[str], Person]) -> Iterator[str]:
    """The token of a session of ada's, beside environments whose points report."""
    nothing_left(demo, "ada")
    options = {"environment": "python-venv", "gpus": 0, "time": "1:00:00"}
    with played_python(demo, "reporting", PROGRAM):
        for ada in with_session(person("ada"), options):
            token = session_token(ada)
            _wait_until_known(ada, token)
            yield token
    nothing_left(demo, "ada")


@pytest.fixture
def ada(token: str, person: Callable[[str], Person]) -> Person:
    return person("ada")


def _wait_until_known(ada: Person, token: str) -> None:
    wait_until("the portal knows it", lambda: ask(ada, token, "GET", "runs").status_code == 200)


def ask(ada: Person, token: str, method: str, path: str, body: Any = None) -> httpx.Response:
    headers = {"Authorization": f"token {token}"}
    return httpx.request(method, f"{ada.url}{API}{path}", headers=headers, json=body, timeout=60)


def start(ada: Person, token: str, id_: str, **changes: Any) -> httpx.Response:
    body = {
        "id": id_,
        "name": "rates",
        "source": "work/train.ipynb",
        "folder": "/tmp/runs/rates",
        "environment": "reporting",
        "points": 4,
        "at_once": 2,
        **{"cpus": 1, "memory": "100M", "time": "0:10:00", "partition": "cpu"},
    }
    return ask(ada, token, "POST", "session/runs", {**body, **changes})


def run(ada: Person, token: str, id_: str) -> dict[str, Any]:
    answer = ask(ada, token, "GET", f"runs/{id_}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_run_from_its_start_to_its_end(demo: Any, ada: Person, token: str) -> None:
    id_ = f"{ID}0"
    answer = start(ada, token, id_)
    assert answer.status_code == 202, answer.text
    assert answer.json() == {"id": id_, "server": f"run-{id_.replace('-', '')[:20]}"}
    assert [job.id for job in living_jobs(demo, "ada") if "_" in job.id], "Slurm has it"
    ended = wait_until("it has ended", lambda: (r := run(ada, token, id_))["ended_at"] and r, 150)
    assert ended["counts"] == {"waiting": 0, "running": 0, "succeeded": 2, "failed": 2, "lost": 0}
    assert ended["message"] == "The run has ended: 2 of 4 points succeeded, 2 failed."
    assert (ended["state"], ended["metrics"]) == ("ended", ["loss"])
    assert ended["job_id"].isdigit()
    answer = ask(ada, token, "GET", f"runs/{id_}/points?sort=-metric&metric=loss")
    points = {point["number"]: point for point in answer.json()["items"]}
    assert list(points) == [0, 1, 2, 3]
    assert (points[0]["state"], points[0]["cell"], points[0]["cells"]) == ("succeeded", 2, 2)
    assert points[1]["message"] == "ValueError: the rate is too high, in cell 2."
    # Slurm alone says how the others ended.
    assert (points[2]["state"], points[2]["message"]) == ("succeeded", "")
    assert points[3]["state"] == "failed"
    assert points[3]["message"].startswith("The point exited with code 3 on ")
    assert points[3]["job"] == f"{ended['job_id']}_3" and points[3]["metrics"] == {"loss": 0.25}
    with Caller(ada.url, "grace") as grace:
        lines = grace.get("audit?action=start-run").json()["items"]
    assert lines[0]["owner"] == "ada" and "4 points" in lines[0]["detail"]


def test_a_run_is_stopped_by_its_session(demo: Any, ada: Person, token: str) -> None:
    id_ = f"{ID}1".replace("5e2f", "6e2f")
    answer = start(ada, token, id_, name="long")
    assert answer.status_code == 202, answer.text
    wait_until("two points run", lambda: run(ada, token, id_)["counts"]["running"] == 2)
    assert run(ada, token, id_)["state"] == "running"
    answer = ask(ada, token, "DELETE", f"runs/{id_}")
    assert answer.status_code == 200, answer.text
    ended = wait_until("it has ended", lambda: (r := run(ada, token, id_))["ended_at"] and r, 150)
    assert ended["counts"]["failed"] == 4, ended
    points = ask(ada, token, "GET", f"runs/{id_}/points").json()["items"]
    for point in points:
        assert point["message"].startswith("The point was cancelled"), point
    assert {point["message"].endswith(" before it started.") for point in points} == {True, False}
    assert ask(ada, token, "DELETE", f"runs/{id_}").status_code == 409


def test_a_run_starts_after_another_or_never(demo: Any, ada: Person, token: str) -> None:
    """Of the points of 'gate-good' all succeed, of those of 'gate-bad' two fail."""
    folder = demo.home.demo / "reporting"
    good, later, bad, never = (f"{ID}3".replace("5e2f", f"{n}e2f") for n in "89ab")
    for id_, more in (
        (good, {"name": "gate-good", "points": 1}),
        (later, {"name": "later", "points": 1, "after": good}),
        (bad, {"name": "gate-bad", "at_once": 4}),
        (never, {"name": "never", "points": 1, "after": bad}),
    ):
        answer = start(ada, token, id_, folder=f"{folder}/{more['name']}", **more)
        assert answer.status_code == 202, answer.text
    assert run(ada, token, later)["message"] == "The run is waiting for 'gate-good'."
    reasons = ("--user=ada", "--format=%r")
    wait_until("two wait", lambda: squeue(demo, *reasons).split().count("Dependency") == 2)
    (folder / "go").touch()
    ids = (good, later, bad, never)

    def all_ended() -> dict[str, Any]:
        runs = {id_: run(ada, token, id_) for id_ in ids}
        return runs if all(found["ended_at"] for found in runs.values()) else {}

    ended = wait_until("all have ended", all_ended, 250)
    assert ended[good]["counts"]["succeeded"] == ended[later]["counts"]["succeeded"] == 1
    (first,) = ask(ada, token, "GET", f"runs/{good}/points").json()["items"]
    (second,) = ask(ada, token, "GET", f"runs/{later}/points").json()["items"]
    assert first["ended_at"] <= second["started_at"]
    assert ended[bad]["counts"]["failed"] == 2
    because = "The run did not start, because 2 points of 'gate-bad' failed."
    assert ended[never]["message"] == because and ended[never]["counts"]["failed"] == 1
    answer = start(ada, token, f"{ID}4".replace("5e2f", "ce2f"), after=bad)
    assert answer.status_code == 409, answer.text
    assert "2 points did not succeed" in answer.json()["error"]["message"]


def test_a_chain_is_repeated_on_a_schedule(demo: Any, ada: Person, token: str) -> None:
    """The runs of the test before; the clock is not waited for: the time of the start is now."""
    later = f"{ID}3".replace("5e2f", "9e2f")
    schedule = {"run": later, "at": "00:00"}
    answer = ask(ada, token, "POST", "runs/schedules", schedule)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert [each["name"] for each in made["runs"]] == ["gate-good", "later"]

    async def due(store: Store) -> None:
        kept = await store.table(RunScheduleTable).get("ada", made["id"])
        assert await store.table(RunScheduleTable).change(kept, next_at=time.time())

    stored(demo, due)

    def last_run() -> str:
        (item,) = ask(ada, token, "GET", "runs/schedules").json()["items"]
        assert not item["message"], item
        return str(item["last_run"])

    id_ = wait_until("its time was served", last_run, 150)
    ended = wait_until("it has ended", lambda: (r := run(ada, token, id_))["ended_at"] and r, 200)
    assert ended["counts"]["succeeded"] == 1 and ended["name"].startswith("later-20"), ended
    assert ended["after_name"].startswith("gate-good-20")
    assert ask(ada, token, "DELETE", f"runs/schedules/{made['id']}").status_code == 200


def test_what_the_launch_refuses_is_told(ada: Person, token: str) -> None:
    id_ = f"{ID}2".replace("5e2f", "7e2f")
    answer = start(ada, token, id_, points=5000)
    assert answer.status_code == 403
    message = answer.json()["error"]["message"]
    assert "5,000 points; Slurm allows 1,000 tasks" in message and "MaxArraySize" in message
    assert ask(ada, token, "GET", f"runs/{id_}").status_code == 404
    for field, words in {"environment": "No environment", "account": "the account 'nope'"}.items():
        answer = start(ada, token, id_, **{field: "nope"})
        error = answer.json()["error"]
        assert (answer.status_code, error["field"]) == (403, field), "a dialog shows it there"
        assert words in error["message"]


def test_a_run_s_token_is_for_its_own_reports(ada: Person, token: str) -> None:
    report = {"point": 0, "state": "succeeded"}
    answer = ask(ada, token, "POST", "session/points", report)
    assert answer.status_code == 403
    assert answer.json()["error"]["message"] == "This token does not belong to a run's job."
