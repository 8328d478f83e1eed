"""Runs of a project on the real demo: a member starts one for it in a session of their own, another
one is shared with it, a reader compares them, and an outsider finds nothing."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Any

import pytest
from api_client import Caller
from hub_client import Person, wait_until, with_session
from jobs import nothing_left
from looks import check
from remembered import stored
from sign_in import sign_in
from terminal import terminal

from portal.models.session.run import PointState, Run, RunPoint
from portal.store import Store
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect

PORTAL = "/services/portal/"
LONG = 120_000  # milliseconds: a job runs
NAME = f"p-{secrets.token_hex(4)}"  # nothing is deleted: each run of the test has its own
ID = "7e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
SCRIPT = """
import json, os
from portal_metrics import log
log(loss=json.loads(os.environ["PORTAL_PARAMETERS"])["lr"] / 4)
"""
MEMBERS = [
    {"person": "student01", "role": "member"},
    {"person": "student02", "role": "reader"},
]


@pytest.fixture(scope="module")
def member(demo: Any) -> Iterator[Person]:
    """A member of a project, in a session of their own; ada, its owner, has a run of her own."""
    for name in ("ada", "grace", "student02", "barbara"):
        assert Person(demo.url, name).logged_in
    nothing_left(demo, "student01")
    project = {"name": NAME, "title": "Protein folding"}
    with Caller(demo.url, "ada") as ada, Caller(demo.url, "grace") as grace:
        made = ada.post("projects", json={"project": project, "members": MEMBERS})
        assert made.status_code == 201, made.text
        body = {"number": made.json()["number"]}
        assert grace.post(f"projects/{NAME}/approve", json=body).is_success
    run = Run(
        id=ID, name="before", source="train.py", folder="/home/ada/runs/before", points=1,
        code_digest=f"sha256:{'a' * 64}", user="ada", server="run-7e2f3c1a0b7d4c8e9a6f",
        environment="python-venv", created_at=time.time() - 60, ended_at=time.time(),
    )  # fmt: skip
    point = RunPoint(
        number=0, state=PointState.SUCCEEDED, attempt=1, parameters={"lr": 3}, metrics={"loss": 9.5}
    )

    async def keep(store: Store) -> None:
        await store.table(RunTable).add_run(run)
        await store.table(RunPointTable).save([(("ada", ID), point)])

    async def drop(store: Store) -> None:
        await store.table(RunPointTable).remove("ada", ID)

    stored(demo, keep)
    try:
        options = {"environment": "python-venv", "gpus": 0, "time": "0:30:00"}
        yield from with_session(Person(demo.url, "student01"), options)
    finally:
        stored(demo, drop)
        nothing_left(demo, "student01")
        with Caller(demo.url, "ada") as ada:
            number = ada.get(f"projects/{NAME}").json()["number"]
            ada.post(f"projects/{NAME}/archive", json={"number": number})


def test_runs_of_a_project(demo: Any, member: Person, page: Any) -> None:
    model = {"type": "file", "format": "text", "content": SCRIPT}
    assert member.session("PUT", "api/contents/train.py", json=model).is_success
    options = f"--project {NAME} --name {NAME} --set lr=1,2 --cpus 1 --memory 512M"
    start = f"portal-run train.py {options}"
    wait_until("the portal has the run", lambda: "2 points" in terminal(member, start))

    # ada shares an older run of her own with the project, on its page.
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}{PORTAL}runs/{ID}")
    shares = page.locator("#shares")
    expect(shares).to_contain_text("Only you see this run.")
    shares.get_by_role("button", name="Share run…").click()
    dialog = page.get_by_role("dialog")
    check(page, "run-share")
    dialog.get_by_label("With").select_option(label=f"project {NAME}")
    expect(dialog.get_by_label("User name")).to_be_hidden()
    dialog.get_by_role("button", name="Share").click()
    expect(shares.get_by_role("listitem")).to_contain_text(f"project {NAME}")

    # A reader sees both, chooses them by their users and state, and compares them.
    sign_in(page, demo.url, "student02")
    page.goto(f"{demo.url}{PORTAL}projects/{NAME}")
    rows = page.locator("#runs tr[data-key]")
    expect(rows).to_have_count(2)
    own = rows.filter(has_text="student01")
    expect(own).to_contain_text("2 of 2 succeeded", timeout=LONG)
    expect(own).to_contain_text("0.25", timeout=LONG)
    expect(page.locator("#new-run")).to_be_hidden()
    page.locator("#runs-user").select_option("ada")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("before")
    page.locator("#runs-user").select_option("")
    expect(rows).to_have_count(2)
    check(page, "project-runs")
    page.get_by_label("Select before of ada").check()
    expect(page.locator("#runs-chosen")).to_contain_text("Choose another run to compare with.")
    page.get_by_label(f"Select {NAME} of student01").check()
    page.get_by_role("link", name="Compare 2 runs").click()
    users = page.get_by_role("row", name="User")
    expect(users).to_contain_text("ada")
    expect(users).to_contain_text("student01")
    expect(page.locator("#comparison")).to_contain_text("0.25")
    expect(page.locator("#curves-legend")).to_be_attached()

    # The run's page has nothing that changes it.
    page.goto(f"{demo.url}{PORTAL}projects/{NAME}")
    own.get_by_role("link", name=NAME).click()
    expect(page.locator("#run")).to_contain_text("by student01")
    expect(page.locator("#list tr[data-key]")).to_have_count(2)
    for action in ("Stop run", "Share run…", "Run failed points again…"):
        expect(page.get_by_role("button", name=action)).to_have_count(0)
    address = page.url

    # An outsider finds nothing.
    sign_in(page, demo.url, "barbara")
    answer = page.goto(address)
    assert answer is not None and answer.status == 404
    expect(page.get_by_text("You have no such run.")).to_be_visible()
    run = address.rpartition("/")[2]
    with Caller(demo.url, "barbara") as barbara:
        assert barbara.get(f"runs/{run}").status_code == 404
        assert barbara.get(f"projects/{NAME}/runs").status_code == 403

    # The form of a new run offers the project to the member, and not to the reader.
    sign_in(page, demo.url, "student01")
    page.goto(f"{demo.url}{PORTAL}projects/{NAME}")
    page.locator("#new-run").click()
    chosen = page.get_by_label("Run for")
    expect(chosen).to_have_value(NAME)
    expect(page.get_by_label("Environment")).to_have_value("python-venv")
    check(page, "run-new-project")

    # Who is removed sees none of it within seconds.
    with Caller(demo.url, "ada") as ada, Caller(demo.url, "student02") as reader:
        assert reader.get(f"runs/{run}").is_success
        assert ada.delete(f"projects/{NAME}/members?person=student02").is_success
        wait_until("they see no run", lambda: reader.get(f"runs/{run}").status_code == 404, 5)
