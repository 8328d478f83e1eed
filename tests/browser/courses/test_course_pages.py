"""The pages of courses, in a real browser on the real demo: writing one, its people, answering the
request, the live board with three hundred students, one button for a student."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest
from chromium import late
from hub_client import Person, wait_until
from looks import check
from menus import choose_action
from remembered import stored
from session_records import recorded
from sign_in import sign_in

from portal.models.catalog.environment import Environment
from portal.models.course.course import Course, CourseMember, StoredCourse, WeeklyTime
from portal.models.course.live import Collected, Presence
from portal.models.session.resources import Resources
from portal.models.session.session import SessionState
from portal.models.space import Role, SpaceState
from portal.store import Store

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect
pytestmark = pytest.mark.usefixtures("unharmed")

COURSES = "/services/portal/courses"
HOSTILE = "<img src=x onerror=window.hacked=1>"
CROWD = [f"crowd{number:03}" for number in range(1, 301)]


def visit(page: Any, demo: Any, path: str = "") -> Any:
    """The answer of the server is given back."""
    return page.goto(f"{demo.url}{COURSES}{path}")


def a_course(name: str, title: str, state: SpaceState = SpaceState.APPROVED) -> StoredCourse:
    today = date.today()
    image = Environment(name="jupyterlab", title="Lab", kind="container", image="/none/lab.sif")
    course = Course(
        name=name,
        title=title,
        description=f"How **networks** learn. {HOSTILE}",
        environment="jupyterlab",
        begins=today - timedelta(days=5),
        ends=today + timedelta(days=60),
        timezone="Europe/Berlin",
        weekly=(WeeklyTime(day=0, begins="09:00", minutes=90),),
        default=Resources(gpus=1, time="2:00:00"),
        largest=Resources(gpus=1, time="4:00:00"),
    )
    now = time.time()
    return StoredCourse(
        course=course, state=state, pinned=image, created_by="barbara", created_at=now,
        changed_at=now,
    )  # fmt: skip


def add_draft(demo: Any, name: str, title: str) -> None:
    """A draft of Barbara's, in the database."""
    saved = a_course(name, title, SpaceState.DRAFT)
    members = [CourseMember(course=name, person="barbara", role=Role.INSTRUCTOR)]
    stored(demo, lambda store: store.courses.add_space(saved, members))


@pytest.fixture(scope="module")
def named() -> str:
    return f"t{time.time_ns() // 1_000_000 % 10**9:x}"


@pytest.fixture(scope="module")
def crowd(demo: Any, named: str) -> Iterator[str]:
    """A course of three hundred, most of whom have a session in the database (not in Slurm)."""
    name = f"{named}-crowd"
    now = time.time()
    # Sessions whose job Slurm does not know are ended by the Hub when it looks for such.
    waits = ["sbatch", "--parsable", "--begin=now+1day", "--output=/dev/null", "--wrap=true"]
    waiting = demo.run(waits, user=demo.user("barbara")).stdout.strip()

    async def fill(store: Store) -> None:
        staff = [("barbara", Role.INSTRUCTOR), ("ada", Role.ASSISTANT)]
        people = [*staff, *((person, Role.STUDENT) for person in CROWD)]
        members = [CourseMember(course=name, person=p, role=role) for p, role in people]
        await store.courses.add_space(a_course(name, f"Three hundred {HOSTILE}"), members)
        for number, person in enumerate(CROWD[:60]):
            ended = number % 6 == 0
            record = recorded(
                id=f"{name}-{number}",
                user=person,
                server=f"course-{name}",
                space=name,
                account="barbara",
                job_id=waiting,
                environment="jupyterlab",
                submitted_at=now - 900,
                state=SessionState.ENDED if ended else SessionState.RUNNING,
                ready_at=now - 800,
                ended_at=now - 60 if ended else None,
                ending_code="out_of_memory" if ended else "",
                ending_message=f"It used too much memory. {HOSTILE}" if ended else "",
                nodes=("gpu01",),
            )
            await store.sessions.save(record)
        await store.presence.raise_hand(
            Presence(
                course=name,
                person=CROWD[31],
                session_id=f"{name}-31",
                seen_at=now,
                opened_at=now - 700,
                last_activity=now - 30,
                notebooks=("week3/a.ipynb",),
                hand=f"My loss is NaN {HOSTILE}",
                hand_at=now - 60,
            )
        )

    stored(demo, fill)
    yield name
    demo.run(["scancel", waiting], check=False)


def tile(page: Any, person: str) -> Any:
    return page.locator(f'#tiles [data-person="{person}"]')


# -- writing one --------------------------------------------------------------------------------


def test_an_instructor_writes_a_course_and_an_admin_approves_it(
    demo: Any, page: Any, named: str
) -> None:
    sign_in(page, demo.url, "barbara")
    visit(page, demo)
    page.get_by_role("link", name="New course").click()
    page.get_by_label("Title").fill(f"Course {named}")
    expect(page.get_by_label("Name", exact=True)).to_have_value(f"course-{named}")
    page.get_by_label("Environment", exact=True).select_option("jupyterlab")
    page.get_by_label("Time zone").fill("Europe/Nowhere")
    expect(page.get_by_text("is not a time zone")).to_be_visible()
    page.get_by_label("Time zone").fill("Europe/Berlin")
    page.get_by_role("button", name="Add a weekly time").click()
    page.get_by_label("Begins").fill("09:00")
    expect(page.locator("#term-words")).to_contain_text(re.compile("[0-9] meetings"))
    expect(page.locator(".term-meets").first).to_be_visible()
    page.get_by_role("button", name="Add a weekly time").click()
    page.get_by_label("Begins").nth(1).fill("09:30")
    expect(page.locator("#editor-form")).to_contain_text("overlap")
    page.get_by_role("button", name="Remove this weekly time").nth(1).click()
    expect(page.locator("#editor-status")).to_contain_text("No problems.")
    check(page, "course-new")
    page.get_by_role("button", name="Create course").click()
    page.wait_for_url(f"**/courses/course-{named}/roster")

    # its people, with what was wrong of them
    page.get_by_label("User names").fill("username,mail\nstudent01,a@b\nstudent01,a@b\nnobody99,\n")
    page.get_by_role("button", name="Add members").click()
    report = page.locator("#roster-report")
    expect(report).to_contain_text("1 member added.")
    expect(report).to_contain_text("more than once: student01")
    expect(report).to_contain_text("Not in the directory, so not added: nobody99")
    page.locator("#roster-file").set_input_files(
        {"name": "r.csv", "mimeType": "text/csv", "buffer": "\ufeffstudent02;x\n".encode()}
    )
    expect(page.get_by_label("User names")).to_have_value(re.compile("student02"))
    page.get_by_role("button", name="Add members").click()
    expect(page.locator("#people-count")).to_contain_text("2 students, 1 staff")
    check(page, "course-roster")
    for name, part in (
        ("Schedule", "#term .term-meets"),
        ("Files", "#files-list h3"),
        ("Live board", "#tiles"),
        ("Settings", "#editor-form"),
        ("Overview", "#readiness"),
    ):
        page.get_by_role("navigation", name="Course").get_by_role("link", name=name).click()
        expect(page.locator(part).first).to_be_visible()
        expect(page.locator(".tabs [aria-current=page]")).to_have_text(name)
        check(page, f"course-{name.split()[-1].lower()}")
    expect(page.locator("#readiness")).to_contain_text("GPUs")

    page.get_by_role("button", name="Request approval").click()
    expect(page.locator("#state")).to_contain_text("waiting for approval")
    sign_in(page, demo.url, "grace")
    visit(page, demo)
    request = page.locator(f'[data-course="course-{named}"]')
    expect(request).to_contain_text("The course has")
    check(page, "course-list")
    request.get_by_role("button", name="Approve").click()
    page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    expect(page.get_by_text("No course is waiting for approval.")).to_be_visible()


def test_what_was_typed_is_neither_lost_nor_put_over_somebody_elses(
    demo: Any, page: Any, named: str
) -> None:
    name = f"course-{named}-2"
    add_draft(demo, name, "Two")
    sign_in(page, demo.url, "barbara")
    visit(page, demo, f"/{name}/settings")
    title = page.get_by_label("Title")
    expect(page.get_by_role("button", name="Request approval")).to_be_visible()
    title.fill("Two of mine")
    expect(page.locator("#edit-words")).to_have_text("Unsaved changes.")

    async def another(store: Store) -> None:
        saved = await store.courses.get(name)
        course = saved.course.model_copy(update={"budget": 12.0})
        await store.courses.save(saved.model_copy(update={"course": course}))

    stored(demo, another)
    page.get_by_role("button", name="Save", exact=True).click()
    conflict = page.locator("#conflict")
    expect(conflict).to_contain_text("Another user has saved this course")
    expect(conflict).to_contain_text("budget")
    conflict.get_by_role("button", name="Keep mine").click()
    expect(title).to_have_value("Two of mine")
    page.on("dialog", lambda question: question.accept())
    page.reload()
    page.get_by_role("button", name="Restore").click()
    expect(title).to_have_value("Two of mine")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#board-toasts")).to_contain_text("Course saved.")
    saved = stored(demo, lambda store: store.courses.get(name))
    assert saved.course.title == "Two of mine"


def test_advanced_settings_are_folded_until_they_differ_or_are_wrong(
    demo: Any, page: Any, named: str
) -> None:
    name = f"course-{named}-4"
    members = [CourseMember(course=name, person="barbara", role=Role.INSTRUCTOR)]
    stored(
        demo,
        lambda store: store.courses.add_space(a_course(name, "F", SpaceState.DRAFT), members),
    )
    sign_in(page, demo.url, "barbara")
    wait_until("barbara's course is known", lambda: visit(page, demo, f"/{name}/settings").ok)
    opened = page.locator("details.field-group[open] > summary")
    for label in ("Title", "Environment", "Directory group", "First day", "Time zone"):
        expect(page.get_by_label(label, exact=True)).to_be_visible()
    expect(opened).to_have_count(0)
    budget = page.get_by_text("Account and budget")
    budget.click()
    page.get_by_label("Budget in GPU-hours").fill("40")
    expect(page.locator("#editor-status")).to_contain_text("No problems.")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#board-toasts")).to_contain_text("Course saved.")
    page.reload()
    expect(opened).to_have_text(["Account and budget"])
    budget.click()
    expect(opened).to_have_count(0)
    page.get_by_text("Before each meeting").click()
    page.get_by_label("Reserved nodes").fill("many")
    page.get_by_text("Before each meeting").click()
    expect(opened).to_have_text(["Before each meeting"])
    expect(page.locator("#field-reservation-nodes")).to_have_attribute("aria-invalid", "true")
    page.get_by_role("button", name="Discard changes").click()


def test_a_check_that_takes_its_time_keeps_nobody_from_saving(
    demo: Any, page: Any, named: str
) -> None:
    name = f"course-{named}-3"
    add_draft(demo, name, "T")
    sign_in(page, demo.url, "barbara")
    wait_until("barbara's course is known", lambda: visit(page, demo, f"/{name}/settings").ok)
    expect(page.get_by_role("button", name="Request approval")).to_be_visible()
    page.get_by_label("Title").press_sequentially("hree")
    save = page.get_by_role("button", name="Save", exact=True)
    expect(save).to_be_enabled()
    with late(page, "**/courses/validate"):
        save.click()
    expect(page.locator("#board-toasts")).to_contain_text("Course saved.")


# -- the board ----------------------------------------------------------------------------------


def test_the_board_of_three_hundred_is_there_at_once(demo: Any, page: Any, crowd: str) -> None:
    sign_in(page, demo.url, "barbara")
    # All tiles stand in the page itself; how soon it is painted is in `make bench`.
    # The service remembers for some seconds who is in which course, and nobody told it of this one.
    sent = wait_until(
        "barbara's course is known", lambda: (it := visit(page, demo, f"/{crowd}/board")).ok and it
    ).text()
    assert len(re.findall(r'<li class="seat[ "]', sent)) == 300
    expect(page.locator(".seat-box")).to_have_count(300)
    first = page.locator("#tiles > li").first
    expect(first).to_have_attribute("data-person", CROWD[31])  # the raised hand
    expect(first).to_contain_text(f"My loss is NaN {HOSTILE}")
    expect(page.locator("#which")).to_contain_text("All 300")
    expect(page.locator("#which")).to_contain_text("Running 50")
    check(page, "course-board")


def test_the_board_is_searched_sorted_and_used_by_keyboard(
    demo: Any, page: Any, crowd: str
) -> None:
    sign_in(page, demo.url, "ada")
    visit(page, demo, f"/{crowd}/board")
    expect(page.locator(".seat-box")).to_have_count(300)
    page.get_by_role("button", name=re.compile("^Failed")).click()
    expect(page.locator("#tiles > li")).to_have_count(10)
    expect(tile(page, CROWD[0])).to_contain_text("It used too much memory.")
    assert "which=failed" in page.url
    page.get_by_role("button", name=re.compile("^All")).click()
    page.get_by_label("Search").fill("crowd25")
    expect(page.locator("#tiles > li")).to_have_count(10)
    page.get_by_label("Search").fill("")
    page.get_by_label("Sort by").select_option("name")
    expect(page.locator("#tiles > li").first).to_have_attribute("data-person", CROWD[0])
    tile(page, CROWD[1]).get_by_role("checkbox").focus()
    page.keyboard.press("Space")
    expect(page.locator("#chosen")).to_contain_text("1 student selected")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(CROWD[1])
    expect(dialog.get_by_role("button", name="Extend…")).to_be_visible()
    check(page, "course-person")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(tile(page, CROWD[1]).locator(".seat-name")).to_be_focused()
    page.get_by_role("button", name="Clear selection").click()
    expect(page.locator("#chosen")).to_be_hidden()


def test_a_hand_comes_by_itself_and_is_lowered(demo: Any, page: Any, crowd: str) -> None:
    sign_in(page, demo.url, "barbara")
    visit(page, demo, f"/{crowd}/board")
    expect(page.locator(".seat-box")).to_have_count(300)
    now = time.time()
    presence = Presence(
        course=crowd, person=CROWD[32], session_id=f"{crowd}-32", seen_at=now,
        hand="And mine?", hand_at=now,
    )  # fmt: skip
    stored(demo, lambda store: store.presence.raise_hand(presence))
    expect(tile(page, CROWD[32])).to_contain_text("And mine?")
    expect(page.locator("#tiles > li").nth(1)).to_have_attribute("data-person", CROWD[32])
    page.get_by_role("button", name=f"Lower hand of {CROWD[32]}").click()
    expect(tile(page, CROWD[32])).not_to_contain_text("And mine?")


def test_a_message_is_sent_and_withdrawn(demo: Any, page: Any, crowd: str) -> None:
    sign_in(page, demo.url, "barbara")
    visit(page, demo, f"/{crowd}/board")
    choose_action(page, "all students", "Message all…")
    page.get_by_role("dialog").get_by_label("Message").fill(f"Ten minutes. {HOSTILE}")
    page.get_by_role("dialog").get_by_role("button", name="Send").click()
    expect(page.locator("#board-toasts")).to_contain_text("JupyterLab shows your message.")
    page.reload()
    expect(page.locator("#messages")).to_contain_text(f"Ten minutes. {HOSTILE}")
    page.locator("#messages").get_by_role("button", name="Withdraw").click()
    expect(page.locator("#said")).to_be_hidden()


def test_collecting_keeps_what_was_entered_and_stop_all_names_it(
    demo: Any, page: Any, crowd: str
) -> None:
    sign_in(page, demo.url, "barbara")
    visit(page, demo, f"/{crowd}/board")
    choose_action(page, "all students", "Collect a folder…")
    dialog = page.get_by_role("dialog")
    folder = dialog.get_by_label("Folder", exact=True)
    expect(folder.locator("option")).to_have_text([crowd, "Another folder…"])
    folder.select_option("Another folder…")
    other = dialog.get_by_label("Folder in the students")
    expect(other).to_be_focused()
    other.fill("../elsewhere")
    dialog.get_by_role("button", name="Collect").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Enter a folder in the students' home")
    expect(other).to_have_value("../elsewhere")
    check(page, "course-collect")
    other.fill(f"{crowd}/homework")
    dialog.get_by_role("button", name="Collect").click()
    expect(page.locator("#board-toasts")).to_contain_text(f"Collecting {crowd}/homework.")

    page.get_by_role("button", name="Stop all…").click()
    expect(dialog).to_contain_text(
        f"{crowd}/homework is still being collected, and 300 students have not given it yet "
        "(crowd001, crowd002,"
    )
    dialog.get_by_role("button", name="Back").click()

    async def give(store: Store) -> None:
        (collect,) = await store.collects.of_course(crowd)
        given = {"collect_id": collect.id, "at": time.time()}
        for person, message in ((CROWD[3], f"It is too large. {HOSTILE}"), (CROWD[4], "")):
            files = 0 if message else 2
            row = Collected(person=person, files=files, size=files, message=message, **given)
            await store.collects.give(row)

    stored(demo, give)
    visit(page, demo, f"/{crowd}/files")
    expect(page.get_by_role("group", name="Problems")).to_have_text(
        f"{CROWD[3]}: It is too large. {HOSTILE}"
    )
    check(page, "course-collected")
    choose_action(page, f"the collection of {crowd}/homework", "Close collection")
    expect(page.locator("#files-list")).to_contain_text("closed")
    visit(page, demo, f"/{crowd}/board")
    page.get_by_role("button", name="Stop all…").click()
    expect(dialog).to_contain_text("Unsaved work is lost. Saved files stay.")
    expect(dialog).not_to_contain_text("collected")
    dialog.get_by_role("button", name="Back").click()


def test_who_only_manages_courses_sees_no_students_work(demo: Any, page: Any, crowd: str) -> None:
    sign_in(page, demo.url, "grace")
    visit(page, demo, f"/{crowd}/board")
    expect(page.locator(".seat-box")).to_have_count(300)
    expect(page.get_by_text("You see this board as an admin")).to_be_visible()
    assert "My loss is NaN" not in page.content()
    assert "week3/a.ipynb" not in page.content()


# -- a student ----------------------------------------------------------------------------------


def test_one_button_and_the_tile_of_a_real_session(demo: Any, page: Any) -> None:
    """On the demo's own course: its student opens Lab, its instructor sees that and stops it."""
    student = Person(demo.url, "student30")
    try:
        sign_in(page, demo.url, "student30")
        visit(page, demo)
        page.get_by_role("link", name="Open Deep Learning 101").click()
        expect(page.get_by_role("heading", name="Meetings")).to_be_visible()
        check(page, "course-student")
        page.locator("#open").click()
        page.wait_for_url("**/lab**", timeout=120_000)
        sign_in(page, demo.url, "barbara")
        visit(page, demo, "/dl101/board")
        mine = tile(page, "student30")
        expect(mine).to_contain_text("running")
        mine.locator(".seat-name").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Extend…").click()
        page.get_by_label("Extend by", exact=True).select_option("30")
        page.get_by_role("button", name="Extend", exact=True).click()
        expect(page.locator("#board-toasts")).to_contain_text("now ends at")
        dialog.get_by_role("button", name="Stop…").click()
        page.get_by_role("button", name="Stop", exact=True).click()
        expect(mine).to_contain_text("not started")
        assert not student.server("course-dl101").get("ready")
    finally:
        student.stop("course-dl101")
