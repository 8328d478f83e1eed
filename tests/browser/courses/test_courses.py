"""A class as its people live it, in four browsers at once: barbara teaches, two students learn, and
somebody else has no part in it.

Barbara asks for a course, grace approves it, barbara rehearses and starts it; files are handed out,
changed and handed out again; a student raises a hand and is helped, and shuts the door; it ends.
Pictures go to build/screenshots/."""

from __future__ import annotations

import datetime
import re
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from api_client import Caller
from chromium import SOON
from clicks import Clicks
from hub_client import Person, wait_until
from lab_page import log_in
from looks import take_picture
from menus import choose_action

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

MARK = secrets.token_hex(3)  # a demo may see this story twice
NAME, TITLE = f"story-{MARK}", f"Vision {MARK}"
TEACHER, ADMIN, FIRST, SECOND, OUTSIDER = "barbara", "grace", "student21", "student22", "ada"
STUDENTS = (FIRST, SECOND)
SERVER, COURSE = f"course-{NAME}", f"courses/{NAME}"
START = 240_000  # milliseconds
LESSON, NEWER = "first line\nsecond line\nthird line\n", "FIRST LINE\nsecond line\nthird line\n"
MINE = "first line\nsecond line\nmy own answer\n"
MERGED = "FIRST LINE\nsecond line\nmy own answer\n"


class Browsers:
    """A page for each, which stays open for the whole story."""

    def __init__(self, demo: Any, browser: Any) -> None:
        self._demo, self._browser = demo, browser
        self._pages: dict[str, Any] = {}
        self._clicks: dict[str, Clicks] = {}
        self.errors: list[str] = []

    def __call__(self, name: str) -> Any:
        if name not in self._pages:
            context = self._browser.new_context(viewport={"width": 1300, "height": 900})
            context.set_default_timeout(SOON)
            page = self._pages[name] = context.new_page()
            page.on("pageerror", lambda error: self.errors.append(f"{name}: {error}"))
            log_in(page, self._demo, name)
            page.wait_for_url(re.compile("/(hub|user)/"))
        return self._pages[name]

    def clicks(self, name: str) -> Clicks:
        if name not in self._clicks:
            self._clicks[name] = Clicks(self(name))
        return self._clicks[name]

    def close(self) -> None:
        for page in self._pages.values():
            page.context.close()


@pytest.fixture(scope="module")
def visit(demo: Any, browser: Any) -> Iterator[Browsers]:
    pages = Browsers(demo, browser)
    yield pages
    pages.close()
    with Caller(demo.url, TEACHER) as teacher:  # where the story broke off
        kept = teacher.get(COURSE)
        if kept.is_success and kept.json()["state"] != "archived":
            teacher.post(f"{COURSE}/archive", json={"number": kept.json()["number"]})


@pytest.fixture(scope="module")
def people(demo: Any) -> dict[str, Person]:
    found = {name: Person(demo.url, name) for name in STUDENTS}
    for person in found.values():
        assert person.api("GET", "/user").status_code == 200  # a token
    return found


@pytest.fixture
def service(demo: Any) -> Callable[[str], str]:
    return lambda path: f"{demo.url}/services/portal/{path}"


def picture(page: Any, name: str) -> None:
    take_picture(page, f"class-{name}")


def answer(page: Any, words: str, button: str) -> None:
    """Fill in the one field of the question on the page, and press its button."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill(words)
    dialog.get_by_role("button", name=button, exact=True).click()


def seat(page: Any, person: str) -> Any:
    return page.locator(f"#tiles [data-person='{person}']")


def hand_out(page: Any, text: str) -> None:
    """From the board, as lesson.txt."""
    with page.expect_file_chooser() as chooser:
        choose_action(page, "all students", "Hand out a file…")
    chooser.value.set_files(
        {"name": "lesson.txt", "mimeType": "text/plain", "buffer": text.encode()}
    )
    answer(page, "lesson.txt", "Hand out")
    expect(page.locator("#board-toasts")).to_contain_text("lesson.txt was handed out")


def lesson(person: Person) -> str:
    """What the student has of it now; "" for nothing."""
    found = person.session("GET", f"api/contents/{NAME}/lesson.txt", SERVER)
    return str(found.json()["content"]) if found.is_success else ""


def test_a_course_is_asked_for_and_approved(visit: Browsers, service: Callable[[str], str]) -> None:
    page, today = visit(TEACHER), datetime.date.today()
    page.goto(service("courses"))
    page.get_by_role("link", name="New course").click()
    page.get_by_label("Title", exact=True).fill(TITLE)
    page.get_by_label("Name", exact=True).fill(NAME)
    page.get_by_label("Environment", exact=True).select_option("jupyterlab")
    page.get_by_text("Default resources").click()
    for label, value in (("GPUs", "0"), ("CPUs", "1"), ("Memory", "1G"), ("Time limit", "1:00:00")):
        page.get_by_label(label, exact=True).first.fill(value)
    page.get_by_label("First day", exact=True).fill(str(today))
    page.get_by_label("Last day", exact=True).fill(str(today + datetime.timedelta(days=60)))
    page.get_by_text("Account and budget").click()
    page.get_by_label("Slurm account", exact=True).fill("dl101")
    expect(page.locator("#editor-status")).to_contain_text("No problems")
    picture(page, "1-new")
    page.get_by_role("button", name="Create course").click()

    page.wait_for_url(re.compile(f"/courses/{NAME}/roster"))
    page.get_by_label("User names").fill(f"{FIRST}, {SECOND}\n{FIRST}\nnobody-at-all")
    page.get_by_role("button", name="Add members").click()
    report = page.locator("#roster-report")
    expect(report).to_contain_text("2 members added")
    expect(report).to_contain_text("Not in the directory, so not added: nobody-at-all")
    picture(page, "2-roster")
    page.get_by_role("button", name="Request approval").click()
    expect(page.locator("#state")).to_contain_text("waiting for approval")

    admin = visit(ADMIN)
    admin.goto(service("courses"))
    asked = admin.locator(f"[data-course='{NAME}']")
    expect(asked.locator("[data-readiness]")).to_contain_text("2 students")
    picture(admin, "3-request")
    asked.get_by_role("button", name=re.compile("^Approve")).click()
    answer(admin, "Good luck", "Approve")
    expect(admin.locator(f"[data-course='{NAME}']")).to_have_count(0)


def test_it_is_rehearsed_and_started(
    visit: Browsers, service: Callable[[str], str], people: dict[str, Person]
) -> None:
    page = visit(TEACHER)
    page.goto(service(COURSE))
    choose_action(page, "starts", "Rehearse a start…")
    answer(page, "2", "Rehearse")
    expect(page.locator("#start")).to_contain_text("2 of 2 were ready", timeout=START)
    picture(page, "4-rehearsal")
    wait_until(
        "the rehearsal is thrown away",
        lambda: not any(one.server(f"rehearsal-{NAME}").get("ready") for one in people.values()),
    )

    page.goto(service("sessions"))
    with visit.clicks(TEACHER).at_most(2, "start a class"):
        page.get_by_role("link", name=f"Live board of {TITLE}").click()
        expect(seat(page, FIRST)).to_contain_text(FIRST)
        page.get_by_role("button", name="Start all").click()
    for student in STUDENTS:
        expect(seat(page, student)).to_have_class(re.compile("seat-running"), timeout=START)
    expect(seat(page, FIRST)).to_contain_text("not opened yet")


def test_a_student_has_one_button(
    demo: Any, visit: Browsers, service: Callable[[str], str], people: dict[str, Person]
) -> None:
    for student in STUDENTS:
        page = visit(student)
        page.goto(f"{demo.url}/services/portal/sessions")
        expect(page.locator("#living")).not_to_have_attribute("aria-busy", "true")
        page.get_by_role("link", name=re.compile(f"(Start|Open|progress) {TITLE}")).first.click()
        page.wait_for_url(re.compile(f"/user/{student}/{SERVER}/lab"), timeout=START)
        expect(page.locator("#jp-main-statusbar")).to_contain_text("Raise hand", timeout=START)
    picture(visit(FIRST), "5-lab")
    board = visit(TEACHER)
    for student in STUDENTS:
        expect(seat(board, student)).to_contain_text("active")


def test_what_is_handed_out_again_keeps_everyones_work(
    visit: Browsers, people: dict[str, Person]
) -> None:
    board = visit(TEACHER)
    hand_out(board, LESSON)
    for person in people.values():
        wait_until("the lesson came", lambda person=person: lesson(person) == LESSON, 90)
    body = {"type": "file", "format": "text", "content": MINE}
    first, second = people[FIRST], people[SECOND]
    put = first.session("PUT", f"api/contents/{NAME}/lesson.txt", SERVER, json=body)
    assert put.is_success, put.text
    hand_out(board, NEWER)
    wait_until("both versions came together", lambda: lesson(first) == MERGED, 90)
    wait_until("the new version came", lambda: lesson(second) == NEWER, 90)
    picture(board, "6-board")


# A page on another host below the portal's, in the helper's browser: a form, and requests.
PRESS = """async (door) => {
  const frame = Object.assign(document.createElement("iframe"), { name: "frame" });
  const form = document.createElement("form");
  Object.assign(form, { method: "POST", action: door, target: "frame" });
  document.body.append(frame, form);
  const loaded = new Promise((resolve) => { frame.onload = resolve; });
  form.submit();
  await loaded;
  const sent = fetch(door, { method: "POST", mode: "no-cors", credentials: "include" });
  await sent.catch(() => null); // its answer is kept from the page (Cross-Origin-Resource-Policy)
  const headers = { "X-XSRFToken": "guessed", "Content-Type": "application/json" };
  const read = fetch(door, { method: "POST", credentials: "include", headers });
  return read.then(() => "read", () => "refused");
}"""


def press_from_elsewhere(demo: Any, helper: Any, door: str) -> None:
    """In the browser of ``helper``, send what a page of another user's session could."""
    page = helper.context.new_page()
    page.goto(f"{demo.url.replace('//', '//elsewhere.')}/hub/health")
    assert page.evaluate(PRESS, door) == "refused"
    page.close()


def expect_question(helper: Any, lab: str) -> None:
    """The Hub asks the helper who opens a bare link to the session."""
    page = helper.context.new_page()
    page.goto(f"{lab}lab")
    expect(page.get_by_role("button", name="Authorize")).to_be_visible()
    page.close()


def test_a_hand_help_and_the_door(
    demo: Any, visit: Browsers, service: Callable[[str], str], people: dict[str, Person]
) -> None:
    student, board = visit(FIRST), visit(TEACHER)
    student.get_by_role("button", name=re.compile("^Raise hand")).click()
    answer(student, "Line three is red", re.compile("Raise|OK|Ask"))  # type: ignore[arg-type]
    tile = seat(board, FIRST)
    expect(tile).to_contain_text("Line three is red")
    picture(board, "7-hand")
    lab = people[FIRST].session_url(SERVER)
    with visit.clicks(TEACHER).at_most(2, "help a student in class"):
        tile.get_by_role("button", name=f"Help {FIRST}").click()
        question = student.get_by_role("dialog")
        expect(question).to_contain_text("barbara offers help")
        picture(student, "8-consent")
        question.get_by_role("button", name="Agree").click()
        expect(
            student.get_by_role("region", name="People with access to this session")
        ).to_contain_text("barbara can see and use this session")
        with Caller(demo.url, TEACHER) as teacher:
            (help,) = teacher.get(f"{COURSE}/help").json()["open"]
        press_from_elsewhere(demo, board, service(f"api/v1/{COURSE}/help/{help['id']}/enter"))
        expect_question(board, lab)
        with board.context.expect_page() as opened:
            board.get_by_role("button", name="Open their session").click()
        guest = opened.value
        inside = guest.get_by_role("region", name="People with access to this session")
        expect(inside).to_contain_text(f"You are in {FIRST}", timeout=START)
    assert guest.evaluate("window.opener") is None
    picture(guest, "9-helping")

    # Nobody else comes in: neither a fellow student nor somebody from outside.
    for name in (SECOND, OUTSIDER):
        stranger = visit(name).context.new_page()
        refused = stranger.goto(f"{lab}lab")
        assert refused is not None and refused.status in (403, 404), f"{name}: {refused}"
        stranger.close()

    student.get_by_role("button", name=re.compile("^End help: barbara")).click()
    expect(student.get_by_role("region", name="People with access to this session")).to_be_hidden()
    shut = guest.goto(f"{lab}lab")
    assert shut is not None and shut.status == 403
    guest.close()
    board.keyboard.press("Escape")


def test_somebody_else_has_no_part_in_it(
    demo: Any, visit: Browsers, service: Callable[[str], str]
) -> None:
    page = visit(OUTSIDER)
    page.goto(service("courses"))
    assert TITLE not in page.content()
    assert page.goto(service(COURSE)).status in (403, 404)
    with Caller(demo.url, OUTSIDER) as caller:
        assert caller.get(f"{COURSE}/board").status_code == 403
    refused = Person(demo.url, OUTSIDER).launch({"course": NAME}, SERVER)
    assert refused.status_code == 403
    assert "no course" in refused.text


def test_it_ends_and_the_work_stays(
    demo: Any, visit: Browsers, service: Callable[[str], str], people: dict[str, Person]
) -> None:
    page = visit(TEACHER)
    page.goto(service(COURSE))
    choose_action(page, "the course", "Archive…")
    page.get_by_role("dialog").get_by_role("button", name="Archive", exact=True).click()
    expect(page.locator("#state")).to_contain_text("archived")
    for person in people.values():
        wait_until("the session has ended", lambda person=person: not person.server(SERVER), 120)
    refused = people[FIRST].launch({"course": NAME}, SERVER)
    assert refused.status_code == 403
    if demo.people:
        file = f"{demo.words['homes']}/{FIRST}/courses/{NAME}/{NAME}/lesson.txt"
        assert demo.run(["cat", file], user=FIRST).stdout == MERGED
    assert visit.errors == []
