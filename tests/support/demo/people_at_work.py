"""People of the demo at work, for tests that take something away under them."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from api_client import Caller
from course_made import approve, course
from endpoint_load import PROGRAM, VERSION
from hub_client import Person, wait_until
from jobs import living_jobs, nothing_left
from notebook_kernel import NotebookKernel
from terminal import session_token

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
print(f"the last line of {os.environ['SLURM_ARRAY_JOB_ID']}_{number}", flush=True)
report("succeeded", cell=2, cells=2, metrics={"loss": 0.5})
"""


class Work:
    """Work on the demo at one moment: a session with a kernel that holds a variable and its open
    websocket, a kernel in a job of its own, a run, an endpoint, a course, a project, a share."""

    def __init__(self, demo: Any, folder: Path) -> None:
        self.demo, self.folder = demo, folder
        self.ada = Person(demo.url, "ada")
        self.callers = {name: Caller(demo.url, name) for name in ("ada", "barbara", "grace")}

    def begin_session(self) -> None:
        """Launch the session, and make the course and the project."""
        options = {"environment": "python-venv", "gpus": 0, "time": "1:00:00"}
        assert self.ada.launch(options).status_code in (201, 202)
        self._keep_course_and_project()
        self.ada.wait_ready()
        self.kernel = NotebookKernel.start(self.ada)
        assert self.kernel.run("kept = 41").status == "ok"
        self.token = session_token(self.ada)
        wait_until("the portal knows the session", lambda: self._own("GET", "runs").is_success)

    def begin_jobs(self) -> None:
        """Start what runs in jobs of its own."""
        (self.folder / "go").unlink(missing_ok=True)  # of an earlier test
        self._serve()
        self._start_run_and_kernel()
        wait_until("the Hub knows that all are ready", self._all_ready)
        self.jobs = sorted(job.id for job in living_jobs(self.demo, "ada"))

    def _all_ready(self) -> bool:
        records = self.callers["ada"].items("sessions")
        return all(record["ready_at"] or record["ended_at"] for record in records)

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

    def _serve(self) -> None:
        home = self.demo.run(["sh", "-c", "echo ~ada"]).stdout.strip()
        self.demo.run(["tee", f"{home}/echo.py"], user=self.demo.user("ada"), input=PROGRAM)
        ada = self.callers["ada"]
        self.address = done(ada.put("models/kept", json={"least": 1}))["address"]
        done(ada.post("models/kept/versions", json=VERSION))
        wait_until("the endpoint answers", lambda: self.ask_endpoint().is_success, 90)

    def ask_endpoint(self) -> Any:
        """Ask the endpoint, through the gateway."""
        url = f"{self.demo.url}{self.address}v1/say"
        return self.callers["ada"].post(url, json={"say": "good day"})

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
        path = f"session/kernels/{ID}"
        wait_until("the service knows Slurm's jobs", lambda: self._own("GET", path).is_success)
        assert self.job_kernel()["state"] == "running"
        assert self.ask_endpoint().is_success
        assert self.run()["counts"]["running"] == 2
        (shared,) = self.callers["barbara"].items("shared-runs")
        assert (shared["id"], shared["user"]) == (RUN, "ada")
        made = done(self.callers["barbara"].get(f"courses/{self.name}"))
        assert made["course"]["name"] == self.name
        assert done(self.callers["barbara"].get(f"projects/p{self.name}"))["number"]

    def printed(self) -> bool:
        """Return True if the output of both points is whole."""
        job, logs = self.run()["job_id"], self.demo.session_logs()
        return all(f"the last line of {job}_{number}" in logs for number in range(2))

    def end(self) -> dict[str, Any]:
        """Let the run end; return it."""
        (self.folder / "go").touch()
        return dict(wait_until("the run has ended", lambda: (r := self.run())["ended_at"] and r))

    def leave(self) -> None:
        """Stop everything."""
        self.callers["ada"].delete("models/kept")
        for caller in self.callers.values():
            caller.close()
        jobs = [job.id for job in living_jobs(self.demo, "ada")]
        self.demo.run(["scancel", *jobs], user=self.demo.user("ada"), check=False)
        nothing_left(self.demo, "ada")


def done(answer: Any) -> dict[str, Any]:
    assert answer.is_success, answer.text
    return dict(answer.json()) if answer.content else {}
