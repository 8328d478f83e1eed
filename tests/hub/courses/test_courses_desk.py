"""A course on the demo, from the form to its approval: a real directory tells who there is, a real
accounting who may run jobs."""

from __future__ import annotations

import time
from typing import Any

from api_client import Caller
from course_made import course, made
from hub_client import wait_until


def test_from_the_form_to_the_approval(demo: Any) -> None:
    name = f"desk-{time.time_ns() // 1_000_000 % 10**9}"
    with (
        Caller(demo.url, "barbara") as barbara,
        Caller(demo.url, "grace") as grace,
        Caller(demo.url, "student05") as student,
    ):
        wait_until("the service has heard from Slurm", lambda: grace.get("board").is_success)
        wrong = course(name, account="nobodys", default={"cpus": 1, "gpu_type": "h900"})
        problems = made(barbara.post("courses/validate", json={"course": wrong}))["problems"]
        assert {one["field"] for one in problems} == {"account", "default.gpu_type"}

        assert student.post("courses", json={"course": course(name)}).status_code == 403
        one = made(barbara.post("courses", json={"course": course(name)}), 201)
        assert one["pinned"]["image"]
        path = f"courses/{name}"
        text = "username;name\nstudent05;Five\nstudent06;Six\nnosuchperson;None\n"
        roster = made(barbara.post(f"{path}/roster", json={"text": text}))
        assert roster["added"] == ["student05", "student06"]
        assert (roster["unknown"], roster["checked"]) == (["nosuchperson"], True)
        # The directory says who may teach.
        more = {"text": "student05 barbara", "role": "instructor"}
        refused = made(barbara.post(f"{path}/roster", json=more))
        assert (refused["added"], refused["refused"]) == ([], ["student05"])

        ready = made(barbara.get(f"{path}/readiness"))
        points = {point["key"]: point for point in ready["points"]}
        assert points["slurm"]["sign"] == "good", points
        assert points["image"]["sign"] == "good", points
        assert points["home"]["sign"] == ("good" if demo.people else "unknown"), points
        assert ready["demand"]["students"] == 2

        asked = made(barbara.post(f"{path}/submit", json={"number": one["number"]}))
        assert asked["state"] == "requested"
        number = {"number": asked["number"]}
        assert barbara.post(f"{path}/approve", json=number).status_code == 403
        yes = made(grace.post(f"{path}/approve", json=number))
        assert (yes["state"], yes["runs"]) == ("approved", True)
        mine = {item["name"] for item in student.items("courses")}
        assert name in mine
        assert student.get(path).status_code == 403
        assert len(made(student.get(f"{path}/meetings"))["items"]) == 10
        # Its group comes with the roster of another one.
        grouped = made(barbara.get(path))
        edit = {
            "course": grouped["course"] | {"roster_group": "course-dl101"},
            "number": grouped["number"],
        }
        kept = made(barbara.put(path, json=edit))
        wait_until(
            "the directory's group is copied",
            lambda: len(made(barbara.get(f"{path}/roster"))["items"]) == 31,
        )
        made(barbara.post(f"{path}/archive", json={"number": kept["number"]}))
        gone = [line["action"] for line in grace.items("audit", limit=100, text=name)]
        assert {"create-course", "enrol", "submit-course", "approve-course"} <= set(gone)
