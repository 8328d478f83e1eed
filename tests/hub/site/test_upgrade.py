"""An upgrade of the Hub and its service under people who work: from the version before the first
release to this one, on to a later one, and back, which is refused."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import checkout
import pytest
from api_client import Caller
from course_made import approve, course
from hub_client import Person, wait_until
from installed_hub import (
    Away,
    InstalledHub,
    next_version,
    source_of,
    without_own_hub,
)
from jobs import living_jobs, nothing_left
from machine import patience
from notebook_kernel import NotebookKernel
from played_points import played_python
from terminal import session_token

from portal.store import HEAD

BEFORE = "fbe39a41"  # the commit before version 0.1.0
LIMIT = 10.0  # seconds without pages
ID = "7e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405169"
RUN = "8e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405168"
# A point that runs until it is told to end, and prints and reports then.
POINT = """#!/usr/bin/python3
import json, os, time, urllib.request

run, number = json.loads(os.environ["PORTAL_RUN"]), int(os.environ["SLURM_ARRAY_TASK_ID"])

def report(state, **more):
    job = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{number}"
    body = {"point": number, "state": state, "job": job, "attempt": 1, **more}
    request = urllib.request.Request(
        os.environ["PORTAL_SERVICE_URL"].rstrip("/") + "/api/v1/session/points",
        json.dumps(body).encode(),
        {"Authorization": "token " + os.environ["JUPYTERHUB_API_TOKEN"],
         "Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=20).read()

report("running", cell=1, cells=2, metrics={"loss": 1.0})
while not os.path.exists(run["folder"] + "/go"):
    time.sleep(0.3)
print("the last line", flush=True)
report("succeeded", cell=2, cells=2, metrics={"loss": 0.5})
"""

# Columns that change by themselves at each start of a Hub, or while it runs; a table's all: it counts
# or measures, and only its rows are compared.
ALL = {"*"}
MOVING = {
    "hub.api_tokens": {"last_activity"},
    "hub.oauth_clients": {"secret"},  # of services: new at each start
    "hub.servers": {"port"},  # of those without a page: the service's
    "hub.services": {"command", "environment", "_server_id"},
    "hub.spawners": {"last_activity", "state"},
    "hub.users": {"last_activity"},
    "portal.environment_tests": ALL,  # they go on
    "portal.history": ALL,
    "portal.history_series": ALL,
    "portal.portal_version": ALL,
    "portal.run_points": {"use"},
    "portal.runs": {"job_id"},  # written when Slurm's answer is known
    "portal.sessions": {"node", "nodes"},
    "portal.usage_days": ALL,
    "portal.usage_jobs": ALL,
}


@pytest.fixture(scope="module")
def sources() -> Iterator[dict[str, Path]]:
    """The source of each version, where the Hub's account can read it."""
    place = Path("/var/tmp") / f"pt-{secrets.token_hex(4)}"
    place.mkdir(mode=0o755)
    try:
        yield {
            BEFORE: source_of(BEFORE, place),
            "0.1.0": checkout.ROOT,
            "next": next_version(place, HEAD),
        }
    finally:
        shutil.rmtree(place)


class Work:
    """What people have at the moment of an upgrade: a session with a kernel that holds a variable
    and its open websocket, a kernel in a job of its own, a run, a course, a project, a share."""

    def __init__(self, demo: Any, folder: Path) -> None:
        self.demo, self.folder = demo, folder
        self.ada = Person(demo.url, "ada")
        self.callers = {name: Caller(demo.url, name) for name in ("ada", "barbara", "grace")}

    def begin(self) -> None:
        """Launch and make all of it."""
        (self.folder / "go").unlink(missing_ok=True)  # of an earlier run of this test
        demo = self.demo
        options = {"environment": "python-venv", "gpus": 0, "time": "1:00:00"}
        assert self.ada.launch(options).status_code in (201, 202)
        self._keep_course_and_project()
        self.ada.wait_ready()
        self.kernel = NotebookKernel.start(self.ada)
        assert self.kernel.run("kept = 41").status == "ok"
        self.token = session_token(self.ada)
        wait_until("the portal knows the session", lambda: self._own("GET", "runs").is_success)
        self._start_run_and_kernel()
        self.jobs = sorted(job.id for job in living_jobs(demo, "ada"))

    def _keep_course_and_project(self) -> None:
        name = f"u{secrets.token_hex(4)}"
        barbara, grace = self.callers["barbara"], self.callers["grace"]
        done(barbara.post("courses", json={"course": course(name)}))
        approve(barbara, grace, name)
        project = {"name": f"p{name}", "title": "Kept", "budget": 0, "largest": {"gpus": 1}}
        members = [{"person": "barbara", "role": "member"}]
        done(self.callers["ada"].post("projects", json={"project": project, "members": members}))
        number = done(grace.get(f"projects/p{name}"))["number"]
        done(grace.post(f"projects/p{name}/approve", json={"number": number}))
        self.name = name

    def _start_run_and_kernel(self) -> None:
        small = {"cpus": 1, "memory": "200M", "time": "0:20:00"}
        run = {"id": RUN, "name": "kept", "source": "a.ipynb", "folder": str(self.folder)}
        run |= {"environment": "gated", "points": 2, "at_once": 2, "partition": "cpu", **small}
        done(self._own("POST", "session/runs", run))
        kernel = {"id": ID, "kernel": "python3", "environment": "python-venv", "gpus": 0, **small}
        done(self._own("POST", "session/kernels", kernel))
        done(self.callers["ada"].post(f"runs/{RUN}/shares", json={"user": "barbara"}))
        wait_until("the points run", lambda: self.run()["counts"]["running"] == 2)
        wait_until("the kernel runs", lambda: self.job_kernel()["state"] == "running")

    def _own(self, method: str, path: str, body: Any = None) -> Any:
        """Ask the service with the session's own token."""
        headers = {"Authorization": f"token {self.token}"}
        return self.callers["ada"].request(method, path, json=body, headers=headers)

    def run(self) -> dict[str, Any]:
        return done(self._own("GET", f"runs/{RUN}"))

    def job_kernel(self) -> dict[str, Any]:
        return done(self._own("GET", f"session/kernels/{ID}"))

    def works(self) -> None:
        """Fail unless everything is there and answers."""
        again = self.kernel.run("kept + 1")
        assert (again.status, again.shown) == ("ok", ["42"]), again
        assert sorted(job.id for job in living_jobs(self.demo, "ada")) == self.jobs
        assert self.ada.server()["ready"]
        assert self.job_kernel()["state"] == "running"
        assert self.run()["counts"]["running"] == 2
        (shared,) = self.callers["barbara"].items("shared-runs")
        assert (shared["id"], shared["user"]) == (RUN, "ada")
        made = done(self.callers["barbara"].get(f"courses/{self.name}"))
        assert made["course"]["name"] == self.name
        assert done(self.callers["barbara"].get(f"projects/p{self.name}"))["number"]

    def end(self) -> dict[str, Any]:
        """Let the run end; return it."""
        (self.folder / "go").touch()
        return dict(wait_until("the run has ended", lambda: (r := self.run())["ended_at"] and r))

    def leave(self) -> None:
        """Stop everything."""
        for caller in self.callers.values():
            caller.close()
        jobs = [job.id for job in living_jobs(self.demo, "ada")]
        self.demo.run(["scancel", *jobs], user=self.demo.user("ada"), check=False)
        nothing_left(self.demo, "ada")


def done(answer: Any) -> dict[str, Any]:
    assert answer.is_success, answer.text
    return dict(answer.json()) if answer.content else {}


def test_people_work_on_while_the_hub_is_upgraded(
    demo: Any, sources: dict[str, Path], tmp_path: Path
) -> None:
    nothing_left(demo, "ada")
    folder: Path
    steps: list[str] = []
    with played_python(demo, "gated", POINT) as folder, without_own_hub(demo) as variables:
        start: Callable[[str], InstalledHub] = lambda version: InstalledHub(  # noqa: E731
            demo, variables, sources[version], tmp_path / version
        )
        hub = start(BEFORE)
        wait_until("the old Hub answers", hub.answers)
        try:
            work = Work(demo, folder)
            try:
                work.begin()
                for version in ("0.1.0", "next"):
                    cell = work.kernel.send(
                        "import time\nfor n in range(40): print(n, flush=True); time.sleep(0.2)"
                    )
                    with Away(demo.url) as away:
                        hub.stop()
                        before = kept(demo)
                        hub = start(version)
                        wait_until(f"{version} answers", hub.answers)
                    lines = work.kernel.wait(cell).printed.split()
                    assert lines == [str(n) for n in range(40)], "the websocket stayed open"
                    wait_until("sessions are back", lambda: work.ada.server().get("ready"))
                    work.works()
                    rows = compared(before, kept(demo))
                    assert away.longest < patience(LIMIT)
                    steps.append(f"| {version} | {away.longest:.1f} s | {rows} |")
                ended = work.end()
                assert ended["counts"]["succeeded"] == 2, ended
                output = done(work._own("GET", f"runs/{RUN}/points/0/output"))
                assert "the last line" in str(output)
            finally:
                work.leave()
            hub.stop()
            before = kept(demo)
            refused = start("0.1.0").refuses()
            assert "newer version (9001)" in refused and "Nothing was changed" in refused
            assert kept(demo) == before
        finally:
            hub.stop()
    print("| to | pages away | rows compared |", *steps, sep="\n")


Rows = dict[tuple[Any, ...], dict[str, Any]]  # of a table, by primary key


def kept(demo: Any) -> dict[str, Rows]:
    """Return the rows of all tables of both databases."""
    folder, found = Path(demo.words["hub_directory"]), {}
    for role, name in (("hub", "jupyterhub"), ("portal", "portal")):
        with contextlib.closing(sqlite3.connect(folder / f"{name}.sqlite")) as connection:
            for table in tables_of(connection):
                columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
                key = [column[0] for column in columns if column[5]] or [0]
                names = [column[1] for column in columns]
                found[f"{role}.{table}"] = {
                    tuple(row[place] for place in key): dict(zip(names, row, strict=True))
                    for row in connection.execute(f"SELECT * FROM {table}")  # noqa: S608
                }
    return found


def tables_of(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    return [name for (name,) in found if not name.startswith("sqlite_")]


def compared(before: dict[str, Rows], after: dict[str, Rows]) -> int:
    """Fail if a row is gone, or has changed otherwise than by itself; return how many there are."""
    problems = []
    for table, rows in before.items():
        for key, row in rows.items():
            now = after[table].get(key)
            if now is None:
                problems.append(f"{table} {key} is gone: {row}")
                continue
            moving = MOVING.get(table, set())
            problems += [
                f"{table} {key}: {name} was {value!r}, is {now[name]!r}"
                for name, value in row.items()
                if not moving & {name, "*"} and alike(now[name]) != alike(value)
            ]
    assert not problems, "\n".join(problems)
    return sum(map(len, before.values()))


def alike(value: Any) -> Any:
    """Return a list of scopes without its order."""
    if isinstance(value, str) and value.startswith("["):
        return sorted(json.loads(value), key=str)
    return value
