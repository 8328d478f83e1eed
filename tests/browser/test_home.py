"""Home in a real browser on the real demo: for each role, from a favourite to its end, and while
the service is away."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from api_client import Caller
from clicks import Clicks
from course_made import TODAY, approve, course, made
from hub_client import Person, wait_until
from jobs import living_jobs
from looks import check
from sign_in import sign_in

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect
pytestmark = pytest.mark.usefixtures("unharmed")

WHO, NEW, TEACHER, ADMIN = "student18", "student26", "barbara", "grace"
ENVIRONMENT = "python-venv"


def visit(page: Any, demo: Any, name: str) -> None:
    """Go Home as this person, by the side bar's address."""
    sign_in(page, demo.url, name)
    page.goto(f"{demo.url}/hub/home")
    page.wait_for_url("**/services/portal/home")
    expect(page.locator("#home [aria-busy]")).to_have_count(0)


@pytest.fixture
def class_today(demo: Any) -> Iterator[str]:
    """Yield a course that meets for all of today, with one student, and archive it afterwards."""
    name = f"home-{secrets.token_hex(3)}"
    meeting = {"date": str(TODAY), "begins": "00:00", "minutes": 1439}
    with Caller(demo.url, TEACHER) as teacher, Caller(demo.url, ADMIN) as admin:
        draft = course(name, title="Class of today", timezone="UTC", weekly=[], single=[meeting])
        made(teacher.post("courses", json={"course": draft}), 201)
        made(teacher.post(f"courses/{name}/roster", json={"text": NEW}))
        approve(teacher, admin, name)
        yield name
        number = made(teacher.get(f"courses/{name}"))["number"]
        made(teacher.post(f"courses/{name}/archive", json={"number": number}))


def test_a_newcomer_starts_in_three_steps(demo: Any, page: Any) -> None:
    visit(page, demo, NEW)
    now = page.locator("#home-now")
    expect(now.get_by_role("heading")).to_have_text("Start in three steps")
    expect(now.locator("li")).to_have_count(3)
    expect(page.locator("#home-gpus li").first).to_contain_text("free")
    expect(page.locator("#portal-nav [aria-current]")).to_have_text("Home")
    check(page, "home-newcomer")
    now.get_by_role("link", name="Launch your first session").click()
    page.wait_for_url("**/hub/spawn?opt-environment=*")


def test_instructors_and_students_see_the_class_of_today(
    demo: Any, page: Any, class_today: str
) -> None:
    visit(page, demo, TEACHER)
    row = page.locator(f"#home-today [data-course={class_today}]")
    expect(row).to_contain_text("00:00\N{EN DASH}23:59")
    check(page, "home-instructor")
    row.get_by_role("link", name="Live board").click()
    page.wait_for_url(f"**/courses/{class_today}/board")
    visit(page, demo, NEW)
    row = page.locator(f"#home-classes [data-course={class_today}]")
    expect(row).to_contain_text("The meeting runs until")
    expect(row.get_by_role("link", name="Start")).to_be_visible()


def test_an_admin_sees_what_needs_a_hand(demo: Any, page: Any) -> None:
    visit(page, demo, ADMIN)
    expect(page.locator("#home-tasks")).to_be_visible()
    expect(page.locator("#home-health li").first).to_contain_text("Slurm")
    expect(page.locator("#home-health li").first).to_contain_text("Works")
    expect(page.locator("#home-queue")).to_contain_text(re.compile("jobs? runs?, [0-9]+ waits?"))
    check(page, "home-admin")


def test_a_favourite_is_one_click_away_and_its_end_is_told(demo: Any, page: Any) -> None:
    someone = Person(demo.url, WHO)
    with Caller(demo.url, WHO) as caller:
        made(caller.put(f"environments/{ENVIRONMENT}/favourite"), 204)
    visit(page, demo, WHO)
    favourite = page.locator(f"#home-launches [data-environment={ENVIRONMENT}]")
    expect(favourite).to_contain_text("favourite")
    clicks = Clicks(page)
    with clicks.at_most(1, "launch a favourite"):
        favourite.get_by_role("link", name="Launch").click()
        page.wait_for_url("**/hub/spawn-pending/**", wait_until="commit")
    page.goto(f"{demo.url}/services/portal/home")  # before Lab, which complains of its server's end
    someone.wait_ready()
    (job,) = living_jobs(demo, WHO)
    running = page.locator("#home-now .entry")
    expect(running).to_contain_text("Running")
    expect(running).to_contain_text("left")
    expect(running.get_by_role("link", name="Open")).to_have_attribute(
        "href", re.compile(f"/user/{WHO}/")
    )
    expect(page.locator("#home-launches [data-post]")).to_have_count(0)
    check(page, "home")
    # The page follows by itself.
    someone.stop()
    wait_until("the job has ended", lambda: job.id not in {j.id for j in living_jobs(demo, WHO)})
    expect(running).to_have_count(0, timeout=60_000)
    expect(page.locator("#home-ended li").first).to_contain_text("You stopped the session")
    again = page.locator("#home-launches [data-post]").first
    expect(again).to_be_visible()
    # A refusal stands in the page, and the link is there for another try.
    page.route("**/launch", lambda route: route.fulfill(
        status=503, json={"error": {"code": "unavailable", "message": "Slurm is away."}}
    ))  # fmt: skip
    again.click()
    expect(page.locator(".note-bad")).to_contain_text("Slurm is away.")
    expect(again).not_to_have_attribute("aria-disabled", "true")


def test_home_stays_while_the_service_is_away(demo: Any, page: Any) -> None:
    visit(page, demo, ADMIN)
    page.clock.install()
    page.route("**/home?update=1", lambda route: route.abort())
    page.clock.run_for(25_000)
    expect(page.locator("#troubles")).to_contain_text("does not answer")
    expect(page.locator("#home-health")).to_be_visible()
    page.unroute("**/home?update=1")
    page.clock.run_for(25_000)
    expect(page.locator("#troubles")).to_have_text("")
    # Without the service, the Hub's own page lists the sessions.
    page.route("**/static/-/js/home.js", lambda route: route.abort())
    page.goto(f"{demo.url}/hub/home")
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    assert page.url.endswith("/hub/home")
