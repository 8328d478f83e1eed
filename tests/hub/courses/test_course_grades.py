"""Assignments on the real demo: nbgrader in the sessions of a course with grades, which is added
while the Hub runs. nbgrader itself lies in the course's data: the demo's image has none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_client import Caller
from course_made import approve, course, made
from hub_client import Person
from terminal import terminal

from portal.demo.environments.python_packages import SYSTEM_PYTHON
from portal.session_packages import uv_environment, uv_program

CONSTRAINTS = Path(__file__).resolve().parents[3] / "deploy/constraints.txt"
PEOPLE = {"barbara": "instructor", "student14": "student", "student15": "student"}
NOTEBOOK = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


class Class:
    """A course with grades, and its people's sessions."""

    def __init__(self, name: str, packages: Path, people: dict[str, Person]) -> None:
        self.name, self.packages, self.people = name, packages, people
        self.server = f"course-{name}"

    def run(self, who: str, command: str) -> str:
        """The output of a command in a terminal of somebody's session."""
        return terminal(self.people[who], command, self.server)

    def nbgrader(self, who: str, words: str) -> str:
        said = self.run(
            who, f"PYTHONPATH={self.packages} python3 -m nbgrader {words}; echo status=$?"
        )
        assert "status=0" in said, said
        return said


@pytest.fixture(scope="module")
def packages(demo: Any) -> Iterator[Path]:
    """nbgrader, in a folder that a course shows to its people."""
    place = demo.home.data / "courses" / "nbgrader"
    install = [uv_program(), "pip", "install", "-q", "--no-config", "--python", SYSTEM_PYTHON]
    subprocess.run(
        [*install, "--target", place, "--constraints", CONSTRAINTS, "nbgrader"],
        env=uv_environment(demo.home.cache),
        umask=0o022,
        check=True,
        timeout=300,
    )
    subprocess.run(["chmod", "-R", "a+rX", place], check=True, timeout=60)
    yield place
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def lesson(demo: Any, packages: Path) -> Iterator[Class]:
    name = f"grades-{time.time_ns() // 1_000_000 % 10**9}"
    people: dict[str, Person] = {}
    with Caller(demo.url, "barbara") as barbara, Caller(demo.url, "grace") as grace:
        wanted = course(name, grades=True, data=str(packages))
        path = f"courses/{name}"
        made(barbara.post("courses", json={"course": wanted}), 201)
        made(barbara.post(f"{path}/roster", json={"text": "student14 student15"}))
        approve(barbara, grace, name)
        found = Class(name, packages, people)
        for who in PEOPLE:
            person = people[who] = Person(demo.url, who)
            answer = person.launch({"course": name}, found.server)
            assert answer.status_code in (201, 202), answer.text
        for person in people.values():
            person.wait_ready(found.server)
        yield found
        for person in people.values():
            person.stop(found.server)
        number = made(barbara.get(path))["number"]
        made(barbara.post(f"{path}/archive", json={"number": number}))


@pytest.mark.skipif(os.geteuid() != 0, reason="the demo's people are one account without root")
def test_release_fetch_submit_collect(lesson: Class) -> None:
    text = json.dumps(NOTEBOOK)
    lesson.run("barbara", f"mkdir -p release/ps1; echo '{text}' >release/ps1/task.ipynb")
    lesson.nbgrader("barbara", "release_assignment ps1")
    lesson.nbgrader("student14", "fetch_assignment ps1")
    lesson.run("student14", "echo forty-two >ps1/mine.txt")
    lesson.nbgrader("student14", "submit ps1")
    # Another student of the course finds neither the work nor its name.
    seen = lesson.run(
        "student15", "ls -R /srv/nbgrader/exchange; cat /srv/nbgrader/exchange/*/inbound/*/*"
    )
    assert "ps1" in seen and "student14" not in seen and "forty-two" not in seen
    lesson.nbgrader("barbara", "collect ps1")
    assert "forty-two" in lesson.run("barbara", "cat submitted/student14/ps1/mine.txt")


def test_the_exchange_is_the_course_s_alone(demo: Any, lesson: Class) -> None:
    other = Person(demo.url, "student14")
    other.stop("course-dl101")
    assert other.launch({"course": "dl101"}, "course-dl101").status_code in (201, 202)
    try:
        other.wait_ready("course-dl101")
        seen = terminal(other, "ls -d /srv/nbgrader/exchange; env", "course-dl101")
    finally:
        other.stop("course-dl101")
    assert "PORTAL_COURSE_EXCHANGE" not in seen and "No such file" in seen
