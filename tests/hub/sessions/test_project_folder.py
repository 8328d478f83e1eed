"""The folder of a project on the real demo: made by root's program, kept as the members are."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from api_client import Caller
from hub_client import wait_until
from jobs import nothing_left

pytestmark = [pytest.mark.slurm, pytest.mark.hub]
NAME = f"p-{secrets.token_hex(4)}"  # nothing is deleted: each run of the test has its own
OWNER, MEMBER, READER, STRANGER = "ada", "student11", "student12", "student13"
SOON = 60  # seconds; two looks of the service


@pytest.fixture
def ada(demo: Any) -> Iterator[Caller]:
    if not demo.people:
        pytest.skip("one account has no folders of projects")
    with Caller(demo.url, OWNER) as ada:
        yield ada
        ada.person.stop()
        nothing_left(demo, OWNER)


def told(answer: Any) -> dict[str, Any]:
    assert answer.is_success, answer.text
    return dict(answer.json())


def test_a_folder_is_the_members(demo: Any, ada: Caller) -> None:
    for name in (MEMBER, READER):
        Caller(demo.url, name).close()  # users of the Hub
    members = [{"person": MEMBER, "role": "member"}, {"person": READER, "role": "reader"}]
    project = {"name": NAME, "title": "Folder", "budget": 10}
    made = told(ada.post("projects", json={"project": project, "members": members}))
    at = f"projects/{NAME}"
    with Caller(demo.url, "grace") as grace:
        told(grace.post(f"{at}/approve", json={"number": made["number"]}))
    place = told(ada.get(at))["folder"]["path"]
    assert place.endswith(f"/projects/{NAME}")

    def may(user: str, words: str) -> bool:
        done = demo.run(["sh", "-c", f"umask 077; {words}"], user=demo.user(user), check=False)
        return bool(done.returncode == 0)

    wait_until("the folder is there", lambda: may(MEMBER, f"ls {place}"), SOON)
    assert may(OWNER, f"echo one > {place}/one")
    assert may(MEMBER, f"echo two >> {place}/one && mkdir {place}/more")
    assert may(READER, f"grep two {place}/one") and not may(READER, f"echo x > {place}/x")
    assert not may(STRANGER, f"ls {place}")

    # A session for the project begins in it.
    options = {"environment": "python-venv", "project": NAME}
    assert ada.person.launch(options).status_code in (201, 202)
    ada.person.wait_ready()
    shown = ada.person.session("GET", "api/contents/").json()["content"]
    assert {"one", "more"} <= {each["name"] for each in shown}
    content = {"type": "file", "format": "text", "content": "by a session"}
    assert ada.person.session("PUT", "api/contents/more/new", json=content).is_success
    assert may(MEMBER, f"grep session {place}/more/new")
    ada.person.stop()

    told(ada.delete(f"{at}/members", params={"person": MEMBER}))
    wait_until("the leaver is out", lambda: not may(MEMBER, f"cat {place}/one"), SOON)
    assert may(READER, f"cat {place}/one")

    number = told(ada.get(at))["number"]
    told(ada.post(f"{at}/archive", json={"number": number}))
    wait_until("it is archived", lambda: not may(OWNER, f"echo x > {place}/x"), SOON)
    assert may(OWNER, f"grep session {place}/more/new")
    told(ada.post(f"{at}/restore", json={"number": told(ada.get(at))["number"]}))
