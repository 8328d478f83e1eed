"""A run that an older database lacks, on the real demo: its user's next session restores it."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

from api_client import Caller
from hub_client import Person, wait_until
from jobs import nothing_left
from terminal import terminal

WHO = "student18"
SESSION = {"environment": "python-venv", "gpus": 0, "time": "1:00:00"}
SCRIPT = "from portal_metrics import log\nlog(loss=0.25, step=7)\n"
COMMAND = (
    f"mkdir -p restored; cd restored; printf '%s' '{SCRIPT}' >train.py; "
    "portal-run train.py --set n=1,2 --cpus 1 --memory 100M --time 0:10:00 --partition cpu"
)


def test_the_next_session_restores_it(demo: Any) -> None:
    nothing_left(demo, WHO)
    with Caller(demo.url, WHO) as caller:
        person = caller.person
        session_of(person)
        wait_until("it starts", lambda: "Results:" in terminal(person, COMMAND), every=3)
        (run,) = wait_until("it has ended", lambda: ended(caller))
        person.stop()
        forget(demo, run["id"])
        assert ended(caller) == []
        session_of(person)
        try:
            wait_until("it is back", lambda: ended(caller))
            path = f"runs/{run['id']}/points"
            points = wait_until("its points are read", lambda: read(caller, path))
            (again,) = ended(caller)
            same = ("id", "name", "folder", "points", "environment", "counts")
            assert {name: again[name] for name in same} == {name: run[name] for name in same}
            assert [point["metrics"] for point in points] == [{"loss": 0.25, "step": 7}] * 2
            assert [point["parameters"] for point in points] == [{"n": 1}, {"n": 2}]
        finally:
            person.stop()
    nothing_left(demo, WHO)


def session_of(person: Person) -> None:
    assert person.launch(SESSION).status_code in (201, 202)
    person.wait_ready()


def ended(caller: Caller) -> list[dict[str, Any]]:
    items = caller.get("runs").json()["items"]
    return [item for item in items if item["state"] == "ended"]


def read(caller: Caller, path: str) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = caller.get(path).json()["items"]
    return [] if any(point["missing"] for point in points) else points


def forget(demo: Any, id_: str) -> None:
    """Have the portal's database as it was before the run."""
    path = demo.home.demo / "hub" / "portal.sqlite"
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as database, database:
        for table, column in (("runs", "id"), ("run_points", "run"), ("run_curves", "run")):
            database.execute(f"DELETE FROM {table} WHERE {column} = ?", (id_,))
