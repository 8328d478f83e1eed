"""Clicks that the most frequent tasks take.

Some are counted where they are done anyway: publishing an environment in
catalog/test_catalog.py, starting a class and helping in it in courses/test_courses.py.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from clicks import Clicks
from hub_client import Person, wait_until
from jobs import living_jobs
from lab_page import log_in
from launch_story import ada  # noqa: F401  fixture

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect


def test_the_tasks_of_a_session_take_few_clicks(
    demo: Any,
    ada: Person,  # noqa: F811
    page: Any,
) -> None:
    log_in(page, demo)
    page.wait_for_url("**/hub/spawn*")
    clicks = Clicks(page)
    with clicks.at_most(3, "start a first session"):
        page.get_by_text("Python (virtual environment)").first.click()
        page.locator("label[for='launch-gpus-0']").click()
        page.get_by_role("button", name="Start", exact=True).click()
        page.wait_for_url("**/user/ada/lab**", timeout=120_000)
    (job,) = living_jobs(demo, "ada")

    page.goto(f"{demo.url}/services/portal/catalog")
    page.get_by_role("link", name="Sessions", exact=True).click()
    expect(page.locator("#living .entry")).to_contain_text(f"job {job.id}")
    with clicks.at_most(2, "extend a session"):
        page.get_by_role("button", name="Extend").click()
        page.get_by_role("dialog").get_by_role("button", name="Extend").click()
        expect(page.locator("#living .entry")).to_contain_text("extended to")

    ada.stop()
    page.goto(f"{demo.url}/services/portal/catalog")
    with clicks.at_most(2, "see why the last session ended"):
        page.get_by_role("link", name="Sessions", exact=True).click()
        expect(page.locator("#ended .entry").first).to_contain_text("You stopped the session")

    with clicks.at_most(3, "start it again with other GPUs"):
        page.locator("#ended .entry").first.get_by_role("link", name="Launch again").click()
        page.locator("label[for='launch-gpus-1']").click()
        page.get_by_role("button", name="Start", exact=True).click()
        page.wait_for_url(re.compile(r"/(spawn-pending|user)/ada"))  # it may be ready at once
    wait_until("it asks for a GPU", lambda: living_jobs(demo, "ada"))
    (job,) = living_jobs(demo, "ada")
    assert job.gres.endswith(":1")
