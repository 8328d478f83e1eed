"""A course's one button: on the launch page, at its own address, and on the home page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hub_client import Person, wait_until, without_session
from jobs import living_jobs
from lab_page import log_in
from looks import take_picture, violations
from menu_items import menu_item

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
SERVER, WHO, TITLE = "course-dl101", "student11", "Deep Learning 101"


@pytest.fixture
def student(demo: Any) -> Iterator[Person]:
    yield from without_session(Person(demo.url, WHO), SERVER)


def test_one_button_is_all_that_a_student_presses(demo: Any, student: Person, page: Any) -> None:
    log_in(page, demo, WHO)
    page.wait_for_url("**/hub/spawn*")
    # The first thing on the page, before any choice.
    courses = page.locator("#launch-courses > li")

    def shown() -> bool:  # the first page after the Hub's start may do without
        page.reload()
        return bool(courses.count() == 1)

    wait_until("the course is on the page", shown)
    expect(courses.locator(".course-meeting")).to_contain_text("meet")
    assert courses.bounding_box()["y"] < page.locator("#spawn_form").bounding_box()["y"]
    assert violations(page, "#launch-courses") == []
    take_picture(page, "course-button")

    # Its own address has the same button; a link from elsewhere starts nothing.
    page.goto(f"{demo.url}/hub/spawn/{WHO}/{SERVER}?opt-course=dl101")
    expect(page.get_by_role("heading", name=TITLE)).to_be_visible()
    assert living_jobs(demo, WHO) == []
    assert violations(page, "#portal-course-launch") == []
    page.goto(f"{demo.url}/hub/spawn/{WHO}/course-ml")
    expect(page.get_by_role("alert")).to_contain_text(
        "There is no course 'ml' that you can access."
    )
    expect(page.locator("#start")).to_be_disabled()

    page.goto(f"{demo.url}/hub/home")
    page.wait_for_url("**/services/portal/home")
    page.get_by_role("link", name="Sessions", exact=True).click()
    page.wait_for_url("**/services/portal/sessions")
    expect(page.locator("#board li").first).to_have_attribute("data-course", "dl101")
    page.get_by_role("link", name=f"Start {TITLE}").click()
    page.wait_for_url(re.compile(rf"/user/{WHO}/{SERVER}/lab"), timeout=120_000)
    (job,) = living_jobs(demo, WHO)
    assert job.state == "RUNNING"

    # Running, it is opened; and there is one row for it.
    context = page.context
    page.close()  # Lab complains where its server goes
    home = context.new_page()
    home.goto(f"{demo.url}/services/portal/sessions")
    row = home.locator("#courses li")
    href = home.get_by_role("link", name=f"Open {TITLE}").get_attribute("href")
    assert f"/user/{WHO}/{SERVER}/" in href
    expect(row).to_be_hidden()
    menu_item(home.locator("#living"), f"Stop {TITLE}").click()
    home.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(row.get_by_role("link", name=f"Start {TITLE}")).to_be_visible()
    expect(home.get_by_role("button", name="Remove")).to_have_count(0)


def test_who_has_no_course_sees_none(demo: Any, page: Any) -> None:
    log_in(page, demo, "grace")
    page.goto(f"{demo.url}/services/portal/sessions")
    expect(page.locator("#living")).to_contain_text("No session")
    assert page.locator("[data-course]").count() == 0
