"""A course's files on the real demo: handed out, changed, handed out again, and collected."""

from __future__ import annotations

import io
import uuid
import zipfile
from collections.abc import Iterator
from typing import Any

import httpx
import local_hosts
import pytest
from api_client import Caller
from hub_client import wait_until

COURSE = "courses/dl101"
SERVER = "course-dl101"
FOLDER = "dl101"


class Student:
    """student03's session of the course, seen from inside, and barbara, who teaches it."""

    def __init__(self, url: str) -> None:
        self.caller, self.barbara = Caller(url, "student03"), Caller(url, "barbara")
        self.person = self.caller.person
        self.url = self.person.session_url(SERVER)

    def inside(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"token {self.person.token}"}
        return local_hosts.request(method, self.url + path, headers=headers, **more)

    def read(self, path: str) -> str | None:
        """The text of a file in the home; None where there is none."""
        answer = self.inside("GET", f"api/contents/{path}?type=file&format=text")
        return str(answer.json()["content"]) if answer.status_code == 200 else None

    def write(self, path: str, text: str) -> None:
        body = {"type": "file", "format": "text", "content": text}
        answer = self.inside("PUT", f"api/contents/{path}", json=body)
        assert answer.is_success, answer.text

    def make_folder(self, path: str) -> None:
        assert self.inside("PUT", f"api/contents/{path}", json={"type": "directory"}).is_success

    def hand_out(self, path: str, text: str) -> str:
        """The revision that has it."""
        answer = self.barbara.post(
            f"{COURSE}/handouts", params={"path": path}, content=text.encode()
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["revision"])


@pytest.fixture(scope="module")
def student(demo: Any) -> Iterator[Student]:
    made = Student(demo.url)
    made.barbara.post(f"{COURSE}/handouts/refresh")
    made.person.stop(SERVER)
    answer = made.person.launch({"course": "dl101"}, SERVER)
    assert answer.status_code in (201, 202), answer.text
    made.person.wait_ready(SERVER)
    yield made
    made.person.stop(SERVER)
    made.caller.close()
    made.barbara.close()


def test_the_courses_files_arrive_by_themselves(student: Student) -> None:
    state = student.barbara.get(f"{COURSE}/handouts").json()
    assert state["problem"] == "" and state["files"], state
    first = next(one["path"] for one in state["files"] if not one["uploaded"])
    wait_until("the files are there", lambda: student.read(f"{FOLDER}/{first}") is not None)


def test_what_a_student_changed_stays(student: Student) -> None:
    name = f"week-{uuid.uuid4().hex[:8]}.txt"
    path = f"{FOLDER}/{name}"
    student.hand_out(name, "1\n2\n3\n4\n5\n6\n7\n")
    wait_until("it came", lambda: student.read(path) == "1\n2\n3\n4\n5\n6\n7\n")
    student.write(path, "my answer\n2\n3\n4\n5\n6\n7\n")
    try:
        student.hand_out(name, "1\n2\n3\n4\n5\n6\nmore\n")
        wait_until(
            "both are there", lambda: student.read(path) == "my answer\n2\n3\n4\n5\n6\nmore\n"
        )
    finally:
        student.barbara.delete(f"{COURSE}/handouts", params={"path": name})


def test_a_folder_is_collected_from_a_running_session(student: Student) -> None:
    folder = f"work-{uuid.uuid4().hex[:8]}"
    student.make_folder(folder)
    student.write(f"{folder}/answer.txt", "42\n")
    begun = student.barbara.post(f"{COURSE}/collects", json={"folder": folder})
    assert begun.status_code == 201, begun.text
    id = begun.json()["id"]

    def given() -> dict[str, Any] | None:
        items = student.barbara.get(f"{COURSE}/collects").json()["items"]
        item = next(one for one in items if one["id"] == id)
        return item if "student03" not in item["missing"] else None

    try:
        item = wait_until("it was given", given)
        assert [(one["person"], one["files"]) for one in item["given"] if one["files"]] == [
            ("student03", 1)
        ]
        answer = student.barbara.get(f"{COURSE}/collects/{id}/download")
        with zipfile.ZipFile(io.BytesIO(answer.content)) as found:
            (name,) = found.namelist()
            assert name.endswith("/student03/answer.txt") and found.read(name) == b"42\n"
        assert student.caller.get(f"{COURSE}/collects/{id}/download").status_code == 403
    finally:
        assert student.barbara.post(f"{COURSE}/collects/{id}/close").is_success


def test_no_link_clones_anything_into_a_session(student: Student) -> None:
    """nbgitpuller's own pages would let any link do that."""
    for path in ("git-pull", "git-pull/api?repo=https://example.org/x", "git-sync", "interact"):
        assert student.inside("GET", path).status_code == 404, path
