"""Groups of courses on the real demo, the role of instructors, and people who have not come yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import local_hosts
from hub_client import Person
from web_service import service_token

CREATE = "custom:portal:courses:create"


def test_who_is_in_a_course_is_in_its_group(demo: Any, person: Callable[[str], Person]) -> None:
    for name, there in (("student10", True), ("barbara", True), ("ada", False)):
        groups = person(name).api("GET", f"/users/{name}").json()["groups"]
        assert ("course-dl101" in groups) is there, name
    assert "gpu-users" in person("student10").api("GET", "/users/student10").json()["groups"]


def test_instructors_may_ask_for_courses(person: Callable[[str], Person]) -> None:
    held = {name: set(person(name).api("GET", "/user").json()["scopes"]) for name in
            ("barbara", "student10", "ada")}  # fmt: skip
    assert CREATE in held["barbara"]
    assert CREATE not in held["student10"] | held["ada"]
    assert "custom:portal:courses:manage" not in held["barbara"]


def test_people_of_a_roster_are_made_known(demo: Any, person: Callable[[str], Person]) -> None:
    def ask(token: str, body: Any) -> Any:
        headers = {"Authorization": f"token {token}"}
        url = f"{demo.url}/hub/api/portal/people"
        return local_hosts.request("POST", url, headers=headers, json=body)

    grace = person("grace")
    grace.api("GET", "/user")
    names = ["student28", "nobody-here", "student28", "a b"]
    assert ask(grace.token, {"people": names}).status_code == 403
    token = service_token(demo)
    answer = ask(token, {"people": names})
    assert answer.status_code == 200, answer.text
    assert answer.json()["refused"] == {
        "nobody-here": "The directory has no user with the name 'nobody-here'.",
        "a b": "The directory has no user with the name 'a b'.",
    }
    made = grace.api("GET", "/users/student28").json()
    assert {"course-dl101", "gpu-users"} <= set(made["groups"])
    assert made["admin"] is False
    assert ask(token, {"people": ["student28"]}).json() == {"made": [], "refused": {}}
    assert grace.api("GET", "/users/nobody-here").status_code == 404
    for body in ({}, [], {"people": "ada"}, {"people": [1]}, {"people": ["x"] * 5001}):
        assert ask(token, body).status_code == 400
