"""A course in JupyterLab, in the browsers of a student and of who teaches: the raised hand, a
message to all, and help that begins with consent and ends. Pictures go to build/screenshots/."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from api_client import Caller
from chromium import SOON
from hub_client import wait_until
from lab_page import log_in, toast
from looks import take_picture

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

STUDENT, TEACHER = "student03", "barbara"
COURSE = "courses/dl101"
SERVER = "course-dl101"
HELP = f"{COURSE}/people/{STUDENT}/help"


class Class:
    """The teacher's API, and the address of the student's session."""

    def __init__(self, url: str) -> None:
        self.teacher, self.student = Caller(url, TEACHER), Caller(url, STUDENT)
        self.lab = f"{self.student.person.session_url(SERVER)}lab"

    def tile(self) -> dict[str, Any]:
        """The student's, on the board."""
        tiles = self.teacher.get(f"{COURSE}/board").json()["tiles"]
        return next(dict(one) for one in tiles if one["person"] == STUDENT)

    def help(self) -> str:
        """The state of the newest."""
        said = self.teacher.get(f"{COURSE}/help").json()
        newest = max((*said["open"], *said["over"]), key=lambda one: one["id"])
        return str(newest["state"])

    def ask(self) -> dict[str, Any]:
        answer = self.teacher.post(HELP, json={"minutes": 10})
        assert answer.status_code == 202, answer.text
        return dict(answer.json())


@pytest.fixture(scope="module")
def course(demo: Any) -> Iterator[Class]:
    made = Class(demo.url)
    person = made.student.person
    person.stop(SERVER)
    assert person.launch({"course": "dl101"}, SERVER).status_code in (201, 202)
    person.wait_ready(SERVER)
    yield made
    person.stop(SERVER)
    made.teacher.close()
    made.student.close()


@pytest.fixture
def lab(demo: Any, page: Any, course: Class) -> Any:
    """The student's Lab."""
    page.set_viewport_size({"width": 1400, "height": 900})
    log_in(page, demo, STUDENT)
    page.wait_for_url(re.compile("/hub/|/user/"))
    page.goto(f"{course.lab}/workspaces/test-course?reset")
    expect(page.locator("#jp-main-statusbar")).to_contain_text("Raise hand")
    return page


def hand(page: Any) -> Any:
    return page.get_by_role("button", name=re.compile("^Raise hand"))


def test_a_hand_and_a_message(lab: Any, course: Class) -> None:
    wait_until("the seat is taken", lambda: course.tile().get("opened_at"))
    expect(hand(lab)).to_have_attribute("aria-pressed", "false")
    lab.locator("body").press("Alt+Shift+H")
    lab.get_by_role("dialog").get_by_role("textbox").fill("Cell 3 is red")
    lab.keyboard.press("Enter")
    expect(hand(lab)).to_have_attribute("aria-pressed", "true")
    wait_until("the board shows it", lambda: course.tile().get("hand") == "Cell 3 is red")
    assert course.teacher.delete(f"{COURSE}/people/{STUDENT}/hand").is_success
    expect(hand(lab)).to_have_attribute("aria-pressed", "false")

    body = {"text": "Ten minutes left, save your work", "minutes": 5}
    made = course.teacher.post(f"{COURSE}/messages", json=body).json()
    expect(toast(lab, "barbara: Ten minutes left")).to_be_visible()
    assert course.teacher.delete(f"{COURSE}/messages/{made['id']}").is_success
    expect(toast(lab, "Ten minutes left")).to_have_count(0)


def test_help_with_consent(browser: Any, demo: Any, lab: Any, course: Class) -> None:
    course.ask()
    question = lab.get_by_role("dialog")
    expect(question).to_contain_text("barbara offers help")
    expect(question).to_contain_text("for 10 min")
    # Who is typing presses Enter: that lets nobody in.
    lab.keyboard.press("Enter")
    wait_until("refused", lambda: course.help() == "refused")
    expect(question).to_be_hidden()  # else its buttons are taken for the next one's

    course.ask()
    agree = question.get_by_role("button", name="Agree")
    expect(agree).to_be_visible()
    take_picture(lab, "course-lab-consent")
    lab.keyboard.press("Tab")
    expect(agree).to_be_focused()
    lab.keyboard.press("Enter")
    bar = lab.get_by_role("region", name="People with access to this session")
    expect(bar).to_be_visible()
    expect(bar).to_contain_text("barbara can see and use this session until")
    expect(lab.locator(".portal-Voice")).to_contain_text("barbara can see and use")
    take_picture(lab, "course-lab-help")

    context = browser.new_context(viewport={"width": 1400, "height": 900})
    try:
        guest = context.new_page()
        guest.set_default_timeout(SOON)
        log_in(guest, demo, TEACHER)
        guest.wait_for_url(re.compile("/hub/|/user/"))
        guest.goto(f"{course.ask()['url']}lab/workspaces/help?reset")
        guest.get_by_role("button", name="Authorize").click()  # a bare link asks
        mine = guest.get_by_role("region", name="People with access to this session")
        expect(mine).to_contain_text(f"You are in {STUDENT}\u2019s session until")
        expect(mine.get_by_role("button")).to_have_count(0)
        expect(hand(guest)).to_have_count(0)

        lab.get_by_role("button", name=re.compile("^End help: barbara")).click()
        expect(bar).to_be_hidden()
        expect(toast(lab, "barbara can no longer use this session")).to_be_visible()
        assert course.help() == "ended"
        refused = guest.goto(f"{course.lab}/workspaces/help")
        assert refused is not None and refused.status == 403
    finally:
        context.close()
