"""Tasks on a phone: a session is started, extended and stopped, a class is started and stopped.

Each tap is on an element that is inside the width of the screen and at least 24 x 24 pixels (WCAG
2.2, Target Size), and no page scrolls sideways.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from api_client import Caller
from chromium import SOON
from course_made import course, made
from hub_client import Person
from jobs import living_jobs
from launch_story import ada  # noqa: F401  fixture
from looks import take_picture
from sign_in import sign_in

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

WIDTH, HEIGHT = 390, 844  # CSS pixels
TARGET = 24  # CSS pixels
START = 240_000  # milliseconds
TEACHER, ADMIN, STUDENT = "barbara", "grace", "student27"


@pytest.fixture
def phone(browser: Any) -> Iterator[Any]:
    """Yield a page in the browser of a phone."""
    context = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT},
        device_scale_factor=2,
        has_touch=True,
        is_mobile=True,
    )
    context.set_default_timeout(SOON)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


@pytest.fixture
def class_of_a_student(demo: Any) -> Iterator[tuple[str, str]]:
    """Yield name and title of a course with one student, which is archived afterwards."""
    name = f"phone-{secrets.token_hex(3)}"
    title, path = f"Class {name}", f"courses/{name}"
    with Caller(demo.url, TEACHER) as teacher, Caller(demo.url, ADMIN) as admin:
        made(teacher.post("courses", json={"course": course(name, title=title)}), 201)
        made(teacher.post(f"{path}/roster", json={"text": STUDENT}))
        number = made(teacher.get(path))["number"]
        number = made(teacher.post(f"{path}/submit", json={"number": number}))["number"]
        made(admin.post(f"{path}/approve", json={"number": number}))
        yield name, title
        number = made(teacher.get(path))["number"]
        made(teacher.post(f"{path}/archive", json={"number": number}))


def tap(page: Any, target: Any) -> None:
    """Tap an element as a thumb does, which must be able to hit it."""
    expect(target).to_be_visible()
    target.scroll_into_view_if_needed()
    box, words = target.bounding_box(), " ".join(target.inner_text().split())
    assert box["x"] >= 0 and box["x"] + box["width"] <= WIDTH, f"{words}: {box}"
    assert min(box["width"], box["height"]) >= TARGET, f"{words}: {box}"
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= WIDTH, f"{page.url} is {wide} px wide"
    target.tap()


def picture(page: Any, name: str) -> None:
    take_picture(page, f"phone-{name}")


def menu(page: Any, entry: str) -> None:
    """Open the navigation and tap one of its entries."""
    tap(page, page.get_by_role("button", name="Toggle navigation"))
    tap(page, page.get_by_role("navigation").get_by_role("link", name=entry, exact=True).first)


def test_a_session_is_started_extended_and_stopped(
    demo: Any,
    ada: Person,  # noqa: F811
    phone: Any,
) -> None:
    sign_in(phone, demo.url, ada.name)
    phone.goto(f"{demo.url}/services/portal/catalog")
    menu(phone, "Launch")
    phone.wait_for_url("**/hub/spawn*")
    tap(phone, phone.locator(".portal-card > label", has_text="Python (virtual environment)"))
    tap(phone, phone.locator("label[for='launch-gpus-0']"))
    picture(phone, "launch")
    tap(phone, phone.get_by_role("button", name="Start", exact=True))
    phone.wait_for_url("**/user/ada/lab**", timeout=START)
    (job,) = living_jobs(demo, "ada")

    phone.goto(f"{demo.url}/services/portal/catalog")
    menu(phone, "Sessions")
    session = phone.locator("#living .entry")
    expect(session).to_contain_text(f"job {job.id}")
    picture(phone, "sessions")
    tap(phone, session.get_by_role("button", name="Extend"))
    dialog = phone.get_by_role("dialog")
    expect(dialog).to_be_visible()
    picture(phone, "extend")
    tap(phone, dialog.get_by_role("button", name="Extend"))
    expect(session).to_contain_text("extended to")
    tap(phone, session.get_by_role("button", name="More actions"))
    picture(phone, "session-menu")
    tap(phone, session.get_by_role("button", name="Stop"))
    tap(phone, dialog.get_by_role("button", name="Stop"))
    expect(phone.locator("#living")).to_contain_text("No session is running or waiting")
    assert living_jobs(demo, "ada") == []


def test_a_class_is_started_and_stopped(
    demo: Any, phone: Any, class_of_a_student: tuple[str, str]
) -> None:
    name, title = class_of_a_student
    sign_in(phone, demo.url, TEACHER)
    phone.goto(f"{demo.url}/services/portal/catalog")
    menu(phone, "Courses")
    tap(phone, phone.get_by_role("link", name=f"Manage {title}"))
    phone.wait_for_url(f"**/courses/{name}")
    tap(phone, phone.get_by_role("button", name="Start all sessions"))
    start = phone.get_by_role("group", name="Start all", exact=True)
    expect(start).to_contain_text("Start all by barbara")
    picture(phone, "class")
    expect(start).to_contain_text("1 of 1 were ready", timeout=START)
    tap(phone, start.get_by_role("button", name="Close"))

    tap(phone, phone.get_by_role("link", name="Live board"))
    seat = phone.locator(f"#tiles [data-person='{STUDENT}']")
    expect(seat).to_have_class(re.compile("seat-running"))
    picture(phone, "board")
    tap(phone, phone.get_by_role("button", name="Stop all"))
    tap(phone, phone.get_by_role("dialog").get_by_role("button", name="Stop all"))
    expect(seat).to_contain_text("not started")
