"""A meeting on the demo's Slurm: who starts a session while it is on gets its nodes, and a course
that has used its GPU-hours has sessions without GPUs."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from api_client import Caller
from course_made import approve, course, made
from hub_client import Person, wait_until
from jobs import only_job

from spawners.launch.courses import _RESERVED

MINUTE = datetime.timedelta(minutes=1)


@pytest.fixture(scope="module")
def staff(demo: Any) -> Iterator[dict[str, Caller]]:
    with Caller(demo.url, "barbara") as barbara, Caller(demo.url, "grace") as grace:
        yield {"barbara": barbara, "grace": grace}


@pytest.fixture
def approved(staff: dict[str, Caller]) -> Iterator[Callable[..., str]]:
    """``approved(student, reservation=…)``: a course with one student, approved; its name. It is
    archived afterwards."""
    barbara = staff["barbara"]
    with contextlib.ExitStack() as after:

        def make(student: str, **more: Any) -> str:
            name = f"meet-{time.time_ns() // 1_000_000 % 10**9}"
            made(barbara.post("courses", json={"course": course(name, **more)}), 201)
            made(barbara.post(f"courses/{name}/roster", json={"text": student}))
            approve(barbara, staff["grace"], name)
            after.callback(archive, name)
            return name

        def archive(name: str) -> None:
            found = made(barbara.get(f"courses/{name}"))
            if found["state"] != "archived":
                number = {"number": found["number"]}
                made(barbara.post(f"courses/{name}/archive", json=number))

        yield make


@contextlib.contextmanager
def session(demo: Any, who: str, name: str) -> Iterator[str]:
    """The person's session of the course; the id of its job."""
    person, server = Person(demo.url, who), f"course-{name}"
    answer = person.launch({"course": name}, server)
    assert answer.status_code in (201, 202), answer.text
    try:
        person.wait_ready(server)
        yield only_job(demo, demo.user(who))
    finally:
        person.stop(server)


def job(demo: Any, number: str) -> dict[str, str]:
    """What scontrol says of a job."""
    said = demo.run(["scontrol", "show", "job", number, "--oneliner"]).stdout
    return dict(word.split("=", 1) for word in said.split() if "=" in word)


def test_a_session_of_a_meeting_is_on_its_nodes(
    demo: Any, staff: dict[str, Caller], approved: Callable[..., str]
) -> None:
    # What the Hub knows of reservations is from before the course has one.
    own = Person(demo.url, "student28")
    assert own.page("/hub/spawn/student28")
    begins = datetime.datetime.now(datetime.UTC) - MINUTE
    meeting = {"date": str(begins.date()), "begins": f"{begins:%H:%M}", "minutes": 30}
    name = approved(
        "student27",
        timezone="UTC",
        begins=str(begins.date()),
        weekly=[],
        single=[meeting],
        reservation={"nodes": 1, "partition": "cpu"},
    )

    def reserved() -> Any:
        items = made(staff["barbara"].get(f"courses/{name}/reservations"))["items"]
        return items and items[0]["state"] == "made" and items[0]["nodes"] and items[0]

    wait_until(
        "Slurm has reserved a node",
        lambda: f"course-{name}-" in demo.run(["scontrol", "show", "res"]).stdout,
        timeout=240,
    )
    time.sleep(_RESERVED)  # the Hub may have looked just before
    asked = time.time()
    with session(demo, "student27", name) as number:
        found = job(demo, number)
        there = wait_until("its page says so", reserved, timeout=240)
        assert found["Reservation"] == there["name"]
        assert found["NodeList"] in there["nodes"]
        left = (there["ends"] - asked) / 60
        hours, minutes, _ = map(int, found["TimeLimit"].split(":"))
        assert 60 * hours + minutes <= left, "it ends with the meeting"
    # Without the course, its nodes are out of reach.
    said = own.launch({"environment": "jupyterlab", "reservation": there["name"]})
    assert said.status_code in (400, 403), said.text
    number = made(staff["barbara"].get(f"courses/{name}"))["number"]
    made(staff["barbara"].post(f"courses/{name}/archive", json={"number": number}))
    wait_until(
        "it is removed with the course",
        lambda: there["name"] not in demo.run(["scontrol", "show", "res"]).stdout,
        timeout=240,
    )


def test_a_course_that_has_used_its_gpu_hours_has_sessions_without_gpus(
    demo: Any, staff: dict[str, Caller], approved: Callable[..., str]
) -> None:
    default = {"gpus": 1, "cpus": 1, "time": "0:30:00"}
    name = approved("student28", default=default, budget=0.001)
    with session(demo, "student28", name) as number:
        assert "gpu" in job(demo, number)["TresPerNode"]
        wait_until(
            "its GPU-hours are counted",
            lambda: made(staff["barbara"].get(f"courses/{name}/usage"))["gpu_hours"] > 0.001,
            timeout=240,
        )
    student, server = Person(demo.url, "student28"), f"course-{name}"
    student.api("GET", "/user")
    wait_until(
        "its page says so",
        lambda: "so its sessions have no GPUs" in student.page(f"/hub/spawn/student28/{server}"),
        timeout=240,
    )
    refused = student.launch({"course": name, "gpus": 1}, server)
    assert refused.status_code == 403, refused.text
    assert "Ask its instructor" in refused.text
    with session(demo, "student28", name) as number:
        assert "TresPerNode" not in job(demo, number)
