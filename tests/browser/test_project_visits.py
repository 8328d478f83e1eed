"""A member opens a colleague's session of a project in a browser of their own: asked for on the
project's page, agreed to in JupyterLab, seen by both, and shut when the time is over."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from api_client import Caller
from chromium import SOON
from hub_client import Person
from lab_page import log_in
from looks import check
from sign_in import sign_in

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect

NAME = f"v-{secrets.token_hex(4)}"  # nothing is deleted: each run of the test has its own
OWNER, VISITOR, READER, SERVER = "ada", "student01", "student02", "visited"
VISITS = f"projects/{NAME}/visits"
TIMES_OUT = 90_000  # milliseconds: a visit of a minute


@pytest.fixture
def owner(demo: Any) -> Iterator[Person]:
    """The owner of a running session of the project."""
    for name in (VISITOR, READER):
        assert Person(demo.url, name).logged_in
    members = [{"person": VISITOR, "role": "member"}, {"person": READER, "role": "reader"}]
    body = {"project": {"name": NAME, "title": "Visited", "budget": 100}, "members": members}
    owner = Person(demo.url, OWNER)
    with Caller(demo.url, OWNER) as caller, Caller(demo.url, "grace") as grace:
        number = {"number": caller.post("projects", json=body).json()["number"]}
        assert grace.post(f"projects/{NAME}/approve", json=number).is_success
        options = {"project": NAME, "environment": "python-venv"}
        assert owner.launch(options, SERVER).status_code in (201, 202)
        owner.wait_ready(SERVER)
        try:
            yield owner
        finally:
            owner.stop(SERVER)
            number = {"number": caller.get(f"projects/{NAME}").json()["number"]}
            caller.post(f"projects/{NAME}/archive", json=number)


def one_minute(route: Any) -> None:
    """Send the dialog's question with a time that the test can wait for."""
    if route.request.method == "POST":
        body = {**route.request.post_data_json, "minutes": 1}
        route.continue_(post_data=json.dumps(body))
    else:
        route.continue_()


def test_a_colleague_opens_a_session_for_a_while(
    demo: Any, browser: Any, page: Any, owner: Person
) -> None:
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    context.set_default_timeout(SOON)
    visitor, lab_url = context.new_page(), owner.session_url(SERVER)
    try:
        log_in(page, demo, OWNER)
        page.wait_for_url(re.compile("/hub/|/user/"))
        page.goto(f"{lab_url}lab/workspaces/visit?reset")
        sign_in(visitor, demo.url, VISITOR)
        home = f"{demo.url}/services/portal/projects/{NAME}"
        visitor.goto(home)
        visitor.route(f"**/{VISITS}", one_minute)
        # The Hub lets nobody in who was not asked about.
        refused = visitor.context.new_page()
        assert refused.goto(f"{lab_url}lab").status in (403, 404)
        refused.close()

        visitor.get_by_role("button", name=f"Ask {OWNER} to open their session").click()
        dialog = visitor.get_by_role("dialog")
        expect(dialog).to_contain_text(f"You act as {OWNER} there")
        dialog.get_by_role("button", name=f"Ask {OWNER}").click()
        expect(visitor.locator("#visits")).to_contain_text(f"You have asked {OWNER}")
        check(visitor, "project-visit")
        visitor.set_viewport_size({"width": 1300, "height": 900})

        question = page.get_by_role("dialog")
        expect(question).to_contain_text(f"{VISITOR} asks to open this session", timeout=30_000)
        expect(question).to_contain_text("They act as you")
        question.get_by_role("button", name="Agree").click()
        bar = page.get_by_role("region", name="People with access to this session")
        expect(bar).to_contain_text(f"{VISITOR} can see and use this session until")

        with context.expect_page() as opened:
            visitor.get_by_role("button", name="Open session").click()
        guest = opened.value
        inside = guest.get_by_role("region", name="People with access to this session")
        expect(inside).to_contain_text(f"You are in {OWNER}", timeout=40_000)
        with Caller(demo.url, VISITOR) as caller:
            (visit,) = caller.get(VISITS).json()["visits"]
            assert visit["state"] == "granted"
        with Caller(demo.url, READER) as reader:
            assert reader.get(VISITS).json()["visits"] == []
            asked = reader.post(VISITS, json={"user": OWNER, "server": SERVER})
            assert asked.status_code == 403 and "role member or owner" in asked.text

        # The time is over: for the owner, the visitor's page and the door.
        expect(bar).to_be_hidden(timeout=TIMES_OUT)
        expect(visitor.locator("#visits")).to_be_empty(timeout=20_000)
        shut = guest.goto(f"{lab_url}lab")
        assert shut is not None and shut.status == 403
        expect(page.get_by_text(f"{VISITOR} can no longer use this session")).not_to_have_count(0)
        assert owner.session("GET", "api/status", SERVER).status_code == 200
    finally:
        context.close()
        page.goto("about:blank")  # Lab would tell that its session is stopped
