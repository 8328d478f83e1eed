"""A class is started on the real demo: with the Hub killed in the middle, rehearsed, and called
off. The sessions are real JupyterLabs in containers."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from api_client import Caller
from course_made import TODAY, approve, course, made
from hub_client import wait_until

NAME = f"starting-{secrets.token_hex(2)}"  # a course that was archived keeps its name
COURSE, SERVER = f"courses/{NAME}", f"course-{NAME}"
# The last two have never logged in.
STUDENTS = tuple(f"student{n:02}" for n in (21, 22, 23, 24, 25))
LIVING = ("PENDING", "RUNNING", "CONFIGURING")
WRITTEN = 8.0  # seconds; SAVE_MAX_WAIT in slurmctld's state_save.c is five


class Class:
    """A course of five, with what its instructor does with it."""

    def __init__(self, demo: Any) -> None:
        self.demo = demo
        self.barbara, self.grace = Caller(demo.url, "barbara"), Caller(demo.url, "grace")

    def make(self) -> None:
        cpus = {"cpus": 1, "memory": "1G", "time": "0:30:00", "partition": "cpu"}
        yesterday = str(TODAY - timedelta(days=1))
        values = course(NAME, default=cpus, account="dl101", begins=yesterday, weekly=[])
        made(self.barbara.post("courses", json={"course": values}), 201)
        if made(self.barbara.get(COURSE))["state"] != "approved":
            approve(self.barbara, self.grace, NAME)
            made(self.barbara.post(f"{COURSE}/roster", json={"text": "\n".join(STUDENTS)}))

    def start(self, **body: Any) -> int:
        answer = self.barbara.post(f"{COURSE}/starts", json=body)
        assert answer.status_code == 202, answer.text
        return int(answer.json()["id"])

    def detail(self, start: int) -> dict[str, Any]:
        """The start with its seats; {} while nobody answers."""
        with contextlib.suppress(httpx.HTTPError, ValueError):
            answer = self.barbara.get(f"{COURSE}/starts/{start}")
            if answer.status_code == 200:
                return dict(answer.json())
        return {}

    def states(self, start: int) -> Counter[str]:
        return Counter(seat["state"] for seat in self.detail(start).get("seats", ()))

    def ended(self, start: int) -> dict[str, Any]:
        """The start once nothing is left to do."""

        def over() -> Any:
            found = self.detail(start)
            return found and found["start"]["ended_at"] and found

        return dict(wait_until("the start is over", over, 240))

    def jobs(self, server: str = SERVER) -> Counter[str]:
        """How many living jobs each student has for servers of that name, as Slurm says."""
        said = self.demo.run(["squeue", "-h", "-o", "%u %T %k"]).stdout
        rows = [line.split(None, 2) for line in said.splitlines()]
        return Counter(
            user for user, state, note in rows if state in LIVING and note.endswith(f":{server}")
        )

    def stop_all(self) -> None:
        answer = self.barbara.post(f"{COURSE}/stop-all")
        assert answer.is_success, answer.text[:300]
        wait_until("all are stopped", lambda: not self.jobs(), 120)

    def server(self, name: str) -> dict[str, Any]:
        answer = self.grace.person.api("GET", f"/users/{name}")
        return dict(answer.json().get("servers", {}).get(SERVER, {}))


@pytest.fixture(scope="module")
def deep(demo: Any) -> Iterator[Class]:
    if not demo.people:
        pytest.skip("in the one-account form there are no students")
    lesson = Class(demo)
    lesson.make()
    lesson.stop_all()
    yield lesson
    lesson.stop_all()
    number = lesson.barbara.get(COURSE).json()["number"]
    lesson.barbara.post(f"{COURSE}/archive", json={"number": number})


def test_the_hub_dies_in_the_middle_and_nobody_is_started_twice(deep: Class) -> None:
    demo = deep.demo
    start = deep.start(kind="all")
    assert deep.barbara.post(f"{COURSE}/starts", json={"kind": "all"}).status_code == 409
    wait_until("some are on their way", lambda: deep.jobs(), every=0.05)
    demo.control("kill", "hub")
    demo.control("start", "hub")
    wait_until("the service is back", lambda: deep.detail(start))
    found = deep.ended(start)
    assert found["report"]["ready"] == len(STUDENTS), found
    assert {seat["state"] for seat in found["seats"]} == {"ready"}
    assert deep.jobs() == Counter(STUDENTS)
    assert 0 < found["report"]["median"] <= found["report"]["last"]

    # Who runs already is left alone.
    again = deep.ended(deep.start(kind="all"))
    assert again["report"]["skipped"] == len(STUDENTS)
    assert deep.jobs() == Counter(STUDENTS)
    listed = [one["id"] for one in deep.barbara.get(f"{COURSE}/starts").json()["items"]]
    assert listed[:2] == [again["start"]["id"], start]
    deep.stop_all()


def test_slurm_forgets_the_first_jobs_and_all_are_started_once(deep: Class) -> None:
    """slurmctld writes new jobs down up to five seconds late (SAVE_MAX_WAIT in its
    state_save.c): one that is killed before has never heard of them."""
    demo = deep.demo
    time.sleep(WRITTEN)  # else it finds those of the test before again, running without a process
    start = deep.start(kind="all")
    wait_until("some are on their way", lambda: deep.jobs(), every=0.05)
    demo.control("kill", "slurmctld")
    demo.control("start", "slurmctld")
    found = deep.ended(start)
    assert found["report"]["ready"] == len(STUDENTS), found
    assert {seat["state"] for seat in found["seats"]} == {"ready"}
    assert deep.jobs() == Counter(STUDENTS)
    deep.stop_all()


def test_a_rehearsal_reports_and_leaves_nothing(deep: Class) -> None:
    found = deep.ended(deep.start(kind="rehearsal", number=2))
    report = found["report"]
    assert (report["total"], report["ready"], report["failed"]) == (2, 2, 0), found
    assert [seat["person"] for seat in found["seats"]] == list(STUDENTS[:2])
    assert {seat["state"] for seat in found["seats"]} == {"released"}
    wait_until("nothing is left", lambda: not deep.jobs(f"rehearsal-{NAME}"))
    assert not deep.jobs()
    # Its owner sees why it ended.
    student = Caller(deep.demo.url, STUDENTS[0])
    last = wait_until(
        "the session is over",
        lambda: next(
            (
                one
                for one in student.get("sessions", params={"state": "ended"}).json()["items"]
                if one["server"] == f"rehearsal-{NAME}"
            ),
            None,
        ),
    )
    assert last["ending"]["code"] == "rehearsed"


def test_what_others_ask_is_refused_and_noted(deep: Class) -> None:
    outsider = Caller(deep.demo.url, "ada")
    for method, path in (
        ("POST", "starts"),
        ("GET", "starts"),
        ("GET", "starts/1"),
        ("POST", "starts/1/cancel"),
        ("GET", "reservations"),
    ):
        answer = outsider.request(method, f"{COURSE}/{path}", json={"kind": "all"})
        assert answer.status_code == 403, (path, answer.text)
    lines = deep.grace.get("audit", params={"action": "denied"}).json()["items"]
    assert sum(line["actor"] == "ada" and line["target"] == f"course {NAME}" for line in lines) >= 5
    wrong = deep.barbara.post(f"{COURSE}/starts", json={"kind": "all", "number": 3})
    assert wrong.status_code == 400
    assert deep.barbara.get(f"{COURSE}/starts/999999").status_code == 404
