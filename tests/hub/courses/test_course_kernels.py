"""Kernels in jobs of their own and runs of a course's session, on the real demo: in the course's
account, by its limits, in its folder, and not longer than the class."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from api_client import Caller
from course_made import approve, course, made
from hub_client import Person, wait_until
from jobs import living_jobs, nothing_left, squeue
from notebook_kernel import NotebookKernel
from terminal import session_token, terminal

NAME = f"kernels-{secrets.token_hex(2)}"
SERVER = f"course-{NAME}"
WHO = "student07"
SPEC = "job-jupyterlab-python3-t4"
WHERE = "import os; print(os.environ['PORTAL_COURSE'], os.getcwd(), os.listdir('/home'))"


class Class(NamedTuple):
    """A course that allows kernels and no runs, and a student's session of it on CPUs."""

    barbara: Caller
    student: Person

    def specs(self) -> dict[str, Any]:
        return dict(self.student.session("GET", "api/kernelspecs", SERVER).json()["kernelspecs"])

    def lab(self) -> httpx.Response:
        return self.student.session("GET", "portal/job-kernels", SERVER)

    def tile(self) -> dict[str, Any]:
        """The student's tile on the board."""
        tiles = made(self.barbara.get(f"courses/{NAME}/board"))["tiles"]
        return dict(next(item for item in tiles if item["person"] == WHO))

    def sessions(self) -> int:
        """Number of the student's sessions in the course's usage."""
        items = made(self.barbara.get(f"courses/{NAME}/usage"))["items"]
        return int(next(item["sessions"] for item in items if item["person"] == WHO))

    def change(self, **changes: Any) -> None:
        detail = made(self.barbara.get(f"courses/{NAME}"))
        body = {"course": {**detail["course"], **changes}, "number": detail["number"]}
        made(self.barbara.put(f"courses/{NAME}", json=body))


@pytest.fixture(scope="module")
def lesson(demo: Any) -> Iterator[Class]:
    nothing_left(demo, demo.user(WHO))
    with Caller(demo.url, "barbara") as barbara, Caller(demo.url, "grace") as grace:
        values = course(
            NAME,
            default={"gpus": 0, "cpus": 1, "memory": "1G", "time": "0:30:00"},
            largest={"gpus": 1, "cpus": 2, "memory": "2G", "time": "0:40:00"},
            account="dl101",
            weekly=[],
            job_kernels=True,
        )
        made(barbara.post("courses", json={"course": values}), 201)
        made(barbara.post(f"courses/{NAME}/roster", json={"text": WHO}))
        approve(barbara, grace, NAME)
        student = Person(demo.url, WHO)
        student.api("GET", "/user")
        try:
            answer = student.launch({"course": NAME}, SERVER)
            assert answer.status_code in (201, 202), answer.text
            student.wait_ready(SERVER)
            found = Class(barbara, student)
            wait_until("the kernels are offered", lambda: SPEC in found.specs())
            yield found
        finally:
            student.stop(SERVER)
            number = {"number": made(barbara.get(f"courses/{NAME}"))["number"]}
            made(barbara.post(f"courses/{NAME}/archive", json=number))


def job_of_kernel(demo: Any) -> Any:
    """The student's only job with GPUs; None without one."""
    jobs = [job for job in living_jobs(demo, demo.user(WHO)) if "gpu" in job.gres]
    assert len(jobs) <= 1, jobs
    return jobs[0] if jobs else None


def test_a_class_with_kernels(demo: Any, lesson: Class) -> None:
    """One story, since each kernel is a job: it runs, it counts, it ends with the class."""
    student, barbara = lesson.student, lesson.barbara
    (item,) = lesson.lab().json()["items"]
    assert (item["environment"], item["max_gpus"]) == ("jupyterlab", 1)
    assert item["default"]["account"] == "dl101"
    asked = {"environment": "jupyterlab", "gpus": 1, "gpu_type": "t4"}
    estimate = student.session(
        "POST", "portal/job-kernels/estimate", SERVER, json={"options": asked}
    )
    assert estimate.json()["outlook"] in ("now", "waits", "unknown"), estimate.text

    # What the course sets is its own, and its maximum is the limit.
    token = session_token(student, SERVER)
    headers = {"Authorization": f"token {token}"}
    address = f"{student.url}/services/portal/api/v1/session/kernels"
    for change, words in (
        ({"account": "research"}, "The course sets 'account'."),
        ({"environment": "python-venv"}, "This course uses"),
        ({"gpus": 0}, "at least one GPU"),
        ({"time": "0:50:00"}, "at most 40 min."),
    ):
        body = {"id": "0123456789abcdef", "kernel": "python3", **asked, **change}
        answer = httpx.post(address, json=body, headers=headers, timeout=60)
        assert answer.status_code in (400, 403) and words in answer.text, answer.text

    kernel = NotebookKernel.start(student, SPEC, server=SERVER)
    ran = kernel.run(WHERE)
    assert ran.status == "ok", ran
    name, folder, homes = ran.printed.split(None, 2)
    assert (name, folder, homes.strip()) == (NAME, f"/home/{WHO}", f"['{WHO}']")
    job = job_of_kernel(demo)
    account, limit = squeue(demo, f"--job={job.id}", "--format=%a %l").split()
    assert (account, limit) == ("dl101", "30:00")

    # It is one of the course's: on its board, in its usage, and of its member's GPUs.
    shown = wait_until(
        "the board tells of it", lambda: (t := lesson.tile()).get("kernel_gpus") and t
    )
    assert (shown["kernels"], shown["state"]) == (1, "running")
    # GPU-hours follow the course of the session's record, once a minute.
    assert lesson.sessions() == 2
    second = NotebookKernel.start(student, SPEC, server=SERVER)
    refused = second.run("1")
    assert refused.status == "error"
    assert "allows each member 1 GPU at once: your kernels have 1." in refused.error, refused
    second.leave()
    second.shut_down()

    # Forbidden while it runs: there is no new one, and the one that runs goes on.
    lesson.change(job_kernels=False)
    answer = httpx.get(address, headers=headers, timeout=60)
    assert answer.status_code == 403 and "does not allow kernels" in answer.text, answer.text
    assert kernel.run("print(2)").printed == "2\n"
    lesson.change(job_kernels=True)

    # The end of the class is the end of its kernels, even of one whose session is gone already.
    made(barbara.post(f"courses/{NAME}/stop-all", json={}))
    kernel.leave()
    wait_until("nothing runs", lambda: not living_jobs(demo, demo.user(WHO)), timeout=120)


def test_a_course_that_does_not_allow_them(demo: Any, lesson: Class) -> None:
    student = lesson.student
    student.stop(SERVER)
    lesson.change(job_kernels=False)
    answer = student.launch({"course": NAME}, SERVER)
    assert answer.status_code in (201, 202), answer.text
    student.wait_ready(SERVER)
    refused = wait_until(
        "Lab is told", lambda: (found := lesson.lab()).status_code == 403 and found
    )
    assert "does not allow kernels in jobs of their own" in refused.json()["message"]
    assert not any(name.startswith("job-") for name in lesson.specs())
    # Nor by a launch of one's own, past the session.
    id_, options = "0123456789abcdef", {"environment": "jupyterlab", "gpus": 1}
    kernel = {"id": id_, "name": "python3", "course": NAME}
    answer = student.launch({**options, "kernel": kernel}, f"kernel-{id_}")
    assert answer.status_code == 403, answer.text
    assert "does not allow kernels" in answer.json()["message"]
    assert job_of_kernel(demo) is None


POINTS = """
import os, time
print(os.environ["PORTAL_COURSE"], os.getcwd(), os.listdir("/home"), flush=True)
while True:
    time.sleep(1)
"""


def test_runs_of_a_class(demo: Any, lesson: Class) -> None:
    """In the session of the test before, which a course without runs has started."""
    student, barbara, before = lesson.student, lesson.barbara, lesson.sessions()
    model = {"type": "file", "format": "text", "content": POINTS}
    assert student.session("PUT", "api/contents/points.py", SERVER, json=model).is_success
    command = "portal-run points.py --set n=1,2,3 --memory 256M"

    def told(more: str = "") -> str:
        return terminal(student, f"{command} {more}; ls runs", SERVER)

    refused = told()
    assert "The course 'A course of the tests' does not allow runs. Its instructor" in refused
    lesson.change(runs=True)
    refused = wait_until("they are allowed", lambda: "CPUs" in (said := told()) and said, every=2)
    assert "2 CPUs at once. Those of this run need 3." in refused, refused
    assert "points" not in refused.splitlines()[-1], "nothing is left of it"

    said = told("--at-once 2")
    assert "Run 'points': 3 points, at most 2 at once." in said, said
    wait_until("two points run", lambda: len(tasks(demo, "RUNNING")) == 2)
    account, limit = squeue(demo, f"--job={tasks(demo, 'RUNNING')[0]}", "--format=%a %l").split()
    assert (account, limit) == ("dl101", "30:00")
    log = "cat runs/points/0000/output.log"
    wait_until("it writes", lambda: terminal(student, log, SERVER).startswith(NAME), every=2)
    assert terminal(student, log, SERVER).strip() == f"{NAME} /home/{WHO} ['{WHO}']"
    assert "running" in terminal(student, "portal-run show points", SERVER)

    # It is one of the course's: on the page Runs, on the board, in its usage.
    with Caller(demo.url, WHO) as own:
        (run,) = made(own.get("runs"))["items"]
        assert (run["course"], run["state"]) == (NAME, "running")
        wait_until("the board tells of it", lambda: lesson.tile()["runs"] == 1)
        assert lesson.sessions() == before + 1
        made(barbara.post(f"courses/{NAME}/stop-all", json={}))
        wait_until("nothing runs", lambda: not living_jobs(demo, demo.user(WHO)), timeout=120)
        path = f"runs/{run['id']}"
        wait_until("it has ended", lambda: made(own.get(path))["ended_at"], timeout=120)
        lesson.change(runs=False)
        for again in ("again", "repetitions"):
            answer = own.post(f"{path}/{again}", json={})
            assert answer.status_code == 403 and "does not allow runs" in answer.text, answer.text


def tasks(demo: Any, state: str) -> list[str]:
    """Ids of the jobs of the student's points in this state of Slurm."""
    return [job.id for job in living_jobs(demo, demo.user(WHO)) if "_" in job.id
            and job.state == state]  # fmt: skip
