"""A project's endpoint on the demo's real Slurm: its job is the project's, its members may use it,
and who leaves is refused within seconds."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from api_client import Caller
from endpoint_load import PROGRAM, VERSION
from hub_client import Person, wait_until
from jobs import nothing_left

pytestmark = [pytest.mark.slurm, pytest.mark.hub]
PROJECT = f"p-{secrets.token_hex(4)}"  # nothing is deleted: each run of the test has its own
ASLEEP, OTHER = 503, 404  # let in, but there is no replica; not theirs


@pytest.fixture
def people(demo: Any) -> Iterator[dict[str, Caller]]:
    """Members of a project without GPU-hours: ada owns it, student01 and barbara are members,
    student02 reads, and student03 is none."""
    home = demo.run(["sh", "-c", "echo ~student01"]).stdout.strip()
    demo.run(["tee", f"{home}/echo.py"], user=demo.user("student01"), input=PROGRAM)
    names = ("ada", "barbara", "student01", "student02", "student03", "grace")
    for name in names:
        assert Person(demo.url, name).logged_in
    callers = {name: Caller(demo.url, name) for name in names}
    grace = callers["grace"]
    project = {"name": PROJECT, "title": "Folding", "budget": 0, "largest": {"gpus": 1}}
    roles = {"barbara": "member", "student01": "member", "student02": "reader"}
    members = [{"person": person, "role": role} for person, role in roles.items()]
    body = {"project": project, "members": members}
    made(callers["ada"].post("projects", json=body))
    made(grace.post(f"projects/{PROJECT}/approve", json=number(grace)))
    yield callers
    for name in ("fold", "large"):
        callers["student01"].delete(f"models/{name}")
    nothing_left(demo, "student01")
    grace.post(f"projects/{PROJECT}/archive", json=number(grace))
    for caller in callers.values():
        caller.close()


def number(caller: Caller) -> dict[str, int]:
    return {"number": made(caller.get(f"projects/{PROJECT}"))["number"]}


def made(answer: httpx.Response) -> dict[str, Any]:
    assert answer.is_success, answer.text
    return dict(answer.json())


def asked(demo: Any, caller: Caller, name: str = "fold") -> int:
    url = f"{demo.url}/services/portal/models/{name}/v1/say"
    headers = {"Authorization": f"Bearer {caller.person.token}"}
    body = {"say": "hello"}
    return httpx.post(url, json=body, headers=headers, trust_env=False, timeout=60).status_code


def listed(caller: Caller) -> dict[str, dict[str, Any]]:
    items = made(caller.get(f"projects/{PROJECT}/endpoints"))["items"]
    return {item["name"]: item for item in items}


def test_a_members_endpoint_is_the_projects(demo: Any, people: dict[str, Caller]) -> None:
    owner, ada = people["student01"], people["ada"]
    made(owner.put("models/fold", json={"project": PROJECT, "least": 1}))
    made(owner.post("models/fold/versions", json=VERSION))
    # One with GPUs is refused by the project's budget, in words that its page shows.
    made(owner.put("models/large", json={"project": PROJECT, "least": 1}))
    made(owner.post("models/large/versions", json={**VERSION, "gpus": 1}))
    wait_until("it answers", lambda: listed(ada)["fold"]["state"] == "ready", 90)
    (work,) = made(ada.get(f"projects/{PROJECT}"))["work"]
    assert (work["user"], work["kind"], work["gpus"]) == ("student01", "replica", 0)
    words = "The project 'Folding' has used its 0 GPU-hours"
    wait_until("the budget is told", lambda: words in listed(ada)["large"]["problem"], 30)
    got = {name: asked(demo, people[name]) for name in people}
    assert got == {
        "ada": 200, "barbara": 200, "student01": 200, "student02": OTHER, "student03": OTHER,
        "grace": OTHER,
    }  # fmt: skip
    for name in ("student02", "student03"):
        assert people[name].get(f"projects/{PROJECT}/endpoints").status_code == 403

    removed = ada.delete(f"projects/{PROJECT}/members?person=barbara")
    assert removed.is_success, removed.text
    began = time.monotonic()
    wait_until("who left is refused", lambda: asked(demo, people["barbara"]) == OTHER, 10)
    assert time.monotonic() - began < 10
    assert asked(demo, ada) == 200

    assert ada.delete(f"projects/{PROJECT}/members?person=student01").is_success
    told = f"its owner student01 is no longer a member of the project '{PROJECT}'"
    wait_until("the page says why", lambda: told in listed(ada)["fold"]["problem"], 20)
