"""The logs of an ended session, from the Sessions page to TensorBoard, as a person does it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hub_client import Person, wait_until
from menu_items import menu_item
from sign_in import send_form

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

TENSORBOARD = "tensorboard"


@pytest.fixture
def ada(demo: Any) -> Iterator[Person]:
    """Ada, whose session has just ended and left a folder of logs."""
    someone = Person(demo.url, "ada")
    for server in ("", TENSORBOARD):
        someone.stop(server)
    someone.launch({"environment": "python-venv"})
    someone.wait_ready()
    made = someone.session("PUT", "api/contents/browser-runs", json={"type": "directory"})
    assert made.status_code in (200, 201), made.text
    someone.stop()
    yield someone
    someone.stop(TENSORBOARD)
    someone.api("DELETE", someone.server_path(TENSORBOARD), {"remove": True})


def test_the_logs_of_an_ended_session(demo: Any, ada: Person, page: Any) -> None:
    page.goto(f"{demo.url}/hub/login?next=/services/portal/sessions")
    send_form(page, "ada")
    page.wait_for_url("**/services/portal/sessions")
    newest = page.locator("#ended .entry").first
    expect(newest).to_contain_text("Python (virtual environment)")
    expect(newest).to_contain_text("Stopped")
    opener = newest.get_by_role("button", name="More actions")
    menu_item(newest, "Open logs in TensorBoard").click()
    field = page.get_by_label(re.compile("Log folders"))
    expect(field).to_be_focused()
    expect(field).to_have_value("~")
    # What is refused stands in the page, and nothing starts.
    field.fill("/etc")
    page.get_by_role("dialog").get_by_role("button", name="Open").click()
    expect(page.get_by_text("'/etc' is not in one of your folders.").first).to_be_visible()
    expect(opener).to_be_focused()
    menu_item(newest, "Open logs in TensorBoard").click()
    page.get_by_label(re.compile("Log folders")).fill("~/browser-runs")
    page.get_by_role("dialog").get_by_role("button", name="Open").click()
    page.wait_for_url(f"**/user/ada/{TENSORBOARD}/portal/tensorboard/**", timeout=120_000)
    wait_until("it is ready", lambda: ada.server(TENSORBOARD).get("ready"))
    expect(page.get_by_text("browser-runs").first).to_be_visible()
