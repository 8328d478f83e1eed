"""What JupyterLab shows of a course, in a real JupyterLab without a Hub, to which a test says how
it stands. With the real portal: test_course_lab.py."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import SOON
from lab_page import command, toast
from looks import take_picture, violations
from session_server import BASE, TOKEN, SessionServer, a_server

from portal.models.course.live import CourseMessage, CourseSituation, Help, HelpState
from portal.models.situation import Situation

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("jupyterlab")
expect = playwright.expect

HOSTILE = '<img src=x onerror="window.hacked=1"> & 100 %s ${1+1}'
NOW = 1_800_000_000.0
BAR = "People with access to this session"


@pytest.fixture(scope="module")
def server(lab_python: Path) -> Iterator[SessionServer]:
    with a_server(lab_python) as running:
        yield running


class Told:
    """``told(hand=…)``: how it stands from now on; ``sent``: what the page asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.guest = ""
        self.course: CourseSituation | None = None
        self.sent: list[tuple[str, str, Any]] = []
        self.held: list[Any] | None = None  # requests that wait for their answer
        page.route("**/portal/situation*", self._answer)
        for name in ("hand", "help"):
            page.route(f"**/portal/{name}*", self._take)

    def __call__(self, guest: str = "", kind: str = "course", **changes: Any) -> None:
        self.guest = guest
        self.course = CourseSituation(
            name="dl", title="Deep Learning", kind=kind, role="student", **changes
        )
        self.report_news()

    def nothing(self) -> None:
        """A session of no course."""
        self.course = None
        self.report_news()

    def report_news(self) -> None:
        self.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    def _answer(self, route: Any) -> None:
        situation = Situation(
            now=NOW, taken_at=NOW, session_id="s", job_id="7", user="ada", environment="lab",
            course=self.course,
        )  # fmt: skip
        local = {"gpus": [], "memory_used": None, "memory_limit": None}
        answer = {
            "situation": situation.model_dump(mode="json"), "at": NOW, "age": 0, "error": "",
            "failing": None, "local": local, "guest": self.guest,
        }  # fmt: skip
        route.fulfill(body=json.dumps(answer))

    def _take(self, route: Any) -> None:
        request = route.request
        name = request.url.split("/portal/")[1].split("?")[0]
        body = json.loads(request.post_data) if request.post_data else None
        self.sent.append((request.method, name, body))
        if self.held is None:
            route.fulfill(body="{}")
        else:
            self.held.append(route)

    def hold(self) -> None:
        self.held = []

    def let_go(self) -> None:
        held, self.held = self.held or [], None
        for route in held:
            route.fulfill(body="{}")


@pytest.fixture(scope="module")
def lab(browser: Any, server: SessionServer) -> Iterator[Told]:
    """One page for all tests: JupyterLab takes its time to load."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    opened = context.new_page()
    opened.set_default_timeout(SOON)
    made = Told(opened)
    with opened.expect_response("**/portal/situation*", timeout=120_000):
        opened.goto(f"{server.url}{BASE}lab?reset&token={TOKEN}")
    yield made
    context.close()


@pytest.fixture
def told(lab: Told) -> Iterator[Told]:
    """In a session of no course at first."""
    lab.nothing()
    expect(lab.page.locator(".portal-CourseItem")).to_be_hidden()
    lab.sent.clear()
    yield lab


@pytest.fixture
def page(lab: Told) -> Any:
    return lab.page


def a_help(number: int = 1, state: HelpState = HelpState.ASKED, helper: str = "barbara") -> Help:
    return Help(
        id=number, course="dl", student="ada", server="course-dl", session_id="s", helper=helper,
        state=state, minutes=10, asked_at=NOW, until=NOW + 600 if state == "granted" else None,
    )  # fmt: skip


def a_message(number: int, text: str, ends_at: float = NOW + 60) -> CourseMessage:
    return CourseMessage(id=number, course="dl", text=text, by="barbara", at=NOW, ends_at=ends_at)


def hand(page: Any) -> Any:
    return page.get_by_role("button", name=re.compile("^Raise hand"))


def voice(page: Any) -> Any:
    return page.locator(".portal-Voice")


def test_a_session_of_no_course_shows_nothing_of_one(page: Any, told: Told) -> None:
    told.nothing()
    expect(hand(page)).to_have_count(0)
    expect(page.get_by_role("region", name=BAR)).to_have_count(0)


def test_the_hand_by_keyboard(page: Any, told: Told) -> None:
    told()
    expect(hand(page)).to_have_attribute("aria-pressed", "false")
    assert violations(page, ".portal-CourseItem") == []
    page.keyboard.press("Alt+Shift+H")
    page.get_by_role("dialog").get_by_role("textbox").fill("Cell 3")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    wait(lambda: told.sent == [("POST", "hand", {"text": "Cell 3"})], page)
    told(hand="Cell 3")
    expect(hand(page)).to_have_attribute("aria-pressed", "true")
    expect(hand(page)).to_have_attribute("title", "Your hand is raised: Cell 3")
    hand(page).focus()
    page.keyboard.press("Enter")
    wait(lambda: told.sent[-1:] == [("DELETE", "hand", None)], page)
    told()
    expect(hand(page)).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("Alt+Shift+H")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert len(told.sent) == 2, "called off"


@pytest.mark.parametrize(
    ("kind", "words"),
    [("rehearsal", "nothing is kept"), ("preview", "as a student"), ("room", "shared with")],
)
def test_what_kind_of_session_it_is(page: Any, told: Told, kind: str, words: str) -> None:
    told(kind=kind)
    item = page.locator(".portal-CourseItem")
    expect(item).to_contain_text("Deep Learning")
    expect(item).to_contain_text(words)
    expect(hand(page)).to_have_count(0)


def test_messages(page: Any, told: Told) -> None:
    long = f"{HOSTILE} {'word ' * 60}end"
    told(messages=(a_message(2, long), a_message(1, "Ten minutes left")))
    expect(toast(page, "barbara: Ten minutes left")).to_be_visible()
    expect(voice(page)).to_contain_text("barbara")
    toast(page, "onerror").get_by_role("button", name="Read all").click()
    whole = page.get_by_role("dialog")
    expect(whole).to_contain_text("From barbara")
    expect(whole).to_contain_text("word end")
    whole.get_by_role("button", name="Close").click()
    assert page.evaluate("window.hacked") is None
    told(messages=(a_message(2, long),))
    expect(toast(page, "Ten minutes left")).to_have_count(0)


def test_consent_by_keyboard(page: Any, told: Told) -> None:
    told(help=(a_help(),))
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("barbara offers help")
    expect(question).to_contain_text("for 10 min")
    expect(voice(page)).to_contain_text("barbara, who teaches this course")
    expect(question.get_by_role("button", name="Refuse")).to_be_focused()
    page.keyboard.press("Enter")
    wait(lambda: told.sent == [("POST", "help", {"id": 1, "answer": "refuse"})], page)
    told()
    expect(question).to_have_count(0)

    told(help=(a_help(2),))
    expect(question.get_by_role("button", name="Agree")).to_be_visible()
    take_picture(page, "course-lab-consent")
    page.keyboard.press("Tab")
    expect(question.get_by_role("button", name="Agree")).to_be_focused()
    page.keyboard.press("Enter")
    wait(lambda: told.sent[-1:] == [("POST", "help", {"id": 2, "answer": "agree"})], page)


def test_a_question_that_comes_while_the_last_answer_is_under_way(page: Any, told: Told) -> None:
    told.hold()
    told(help=(a_help(),))
    question = page.get_by_role("dialog")
    question.get_by_role("button", name="Refuse").click()
    wait(lambda: told.held, page)
    told(help=(a_help(2, helper="ian"),))
    expect(question).to_contain_text("ian offers help")
    with page.expect_response("**/portal/situation*"):
        told.let_go()
    told.report_news()
    question.get_by_role("button", name="Agree").click()
    wait(lambda: told.sent[-1:] == [("POST", "help", {"id": 2, "answer": "agree"})], page)
    expect(question).to_have_count(0)


def test_a_question_that_is_no_longer_asked_goes(page: Any, told: Told) -> None:
    told(help=(a_help(),))
    expect(page.get_by_role("dialog")).to_contain_text("barbara offers help")
    told(help=(a_help(2, helper="ian"),))
    expect(page.get_by_role("dialog")).to_contain_text("ian offers help")
    told()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert told.sent == []


def test_who_is_in_is_seen_and_ended(page: Any, told: Told) -> None:
    told(help=(a_help(1, HelpState.GRANTED),))
    bar = page.get_by_role("region", name=BAR)
    expect(bar).to_be_visible()
    expect(bar).to_contain_text("barbara can see and use this session until")
    expect(voice(page)).to_contain_text("barbara can see and use this session")
    box = bar.bounding_box()
    assert box and box["height"] >= 30 and box["width"] > 1000
    assert violations(page, "#portal-help") == []
    take_picture(page, "course-lab-help")
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    assert violations(page, "#portal-help") == []

    told(help=(a_help(1, HelpState.GRANTED), a_help(2, HelpState.GRANTED, "ian")))
    expect(bar.get_by_role("button")).to_have_count(2)
    end = bar.get_by_role("button", name="End help: ian can no longer use this session")
    end.focus()
    page.keyboard.press("Enter")
    wait(lambda: told.sent[-1:] == [("POST", "help", {"id": 2, "answer": "end"})], page)
    told(help=(a_help(1, HelpState.GRANTED),))
    expect(toast(page, "ian can no longer use this session")).to_be_visible()
    expect(voice(page)).to_contain_text("ian can no longer")
    command(page, "End help in this session")
    wait(lambda: told.sent[-1:] == [("POST", "help", {"id": 1, "answer": "end"})], page)
    told()
    expect(bar).to_have_count(0)
    # The menu is where it was.
    menu = page.locator("#jp-menu-panel").bounding_box()
    assert menu and menu["y"] < 5


def test_a_guest_is_told_so_and_answers_nothing(page: Any, told: Told) -> None:
    told(guest="barbara", help=(a_help(1, HelpState.GRANTED), a_help(2, helper="ian")))
    bar = page.get_by_role("region", name=BAR)
    expect(bar).to_contain_text("You are in ada\u2019s session until")
    expect(bar.get_by_role("button")).to_have_count(0)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(hand(page)).to_have_count(0)
    page.keyboard.press("Alt+Shift+H")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert told.sent == []


def test_a_message_is_shown_once_in_a_browser(page: Any, told: Told) -> None:
    told(messages=(a_message(11, "An old one"),))
    expect(toast(page, "An old one")).to_be_visible()
    with page.expect_response("**/portal/situation*", timeout=120_000):
        page.reload()
    told(messages=(a_message(11, "An old one"), a_message(12, "A newer one")))
    expect(toast(page, "A newer one")).to_be_visible()
    expect(toast(page, "An old one")).to_have_count(0)


def wait(check: Any, page: Any) -> None:
    """Until it is so; Playwright answers requests while its own waits go on."""
    deadline = time.monotonic() + SOON / 1000
    while not check():
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)
