"""A project on the real demo: requested, approved, worked in, left, made again from its file."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_client import Caller
from hub_client import Person, wait_until
from looks import check
from sign_in import sign_in

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect
pytestmark = pytest.mark.usefixtures("unharmed")

PORTAL = "/services/portal/"
LONG = 120_000  # milliseconds: a job starts
NAME = f"p-{secrets.token_hex(4)}"  # nothing is deleted: each run of the test has its own
COPY = f"{NAME}-2"
PEOPLE = ("ada", "barbara", "student01", "student02", "grace")


@pytest.fixture(autouse=True)
def _people(demo: Any) -> Iterator[None]:
    for name in PEOPLE:
        assert Person(demo.url, name).logged_in
    yield
    with Caller(demo.url, "grace") as grace:
        for name in (NAME, COPY):
            found = grace.get(f"projects/{name}")
            if found.is_success and found.json()["state"] != "archived":
                number = {"number": found.json()["number"]}
                grace.post(f"projects/{name}/archive", json=number)


def open_project(page: Any, demo: Any, who: str, name: str = NAME) -> None:
    sign_in(page, demo.url, who)
    page.goto(f"{demo.url}{PORTAL}projects/{name}")


def choose(page: Any, action: str, of: str) -> None:
    page.get_by_role("button", name=f"More actions for {of}").click()
    page.locator(".dropdown-menu.show").get_by_text(action, exact=True).click()


def test_the_story_of_a_project(demo: Any, page: Any, tmp_path: Path) -> None:
    # ada requests one, for barbara too.
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}{PORTAL}projects")
    page.get_by_role("button", name="Request a project").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name", exact=True).fill("Proteins!")
    form.get_by_label("Title").fill("Protein folding")
    form.get_by_label("Purpose").fill("Fold them.")
    form.get_by_label("Budget in GPU-hours").fill("100")
    form.get_by_label("Members").fill("student01")
    form.get_by_role("button", name="Request project").click()
    expect(form.get_by_role("alert").filter(has_text="name")).to_be_visible()
    form.get_by_label("Name", exact=True).fill(NAME)
    form.get_by_role("button", name="Request project").click()
    expect(page.get_by_role("heading", name="Protein folding")).to_be_visible()
    expect(page.locator("#project .state")).to_have_text(re.compile("requested"))
    expect(page.get_by_role("link", name="Launch for this project")).to_have_count(0)

    # grace approves it.
    open_project(page, demo, "grace")
    page.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Approve project").click()
    expect(page.locator("#project .state")).to_have_text(re.compile("approved"))

    # ada adds a reader.
    open_project(page, demo, "ada")
    page.get_by_role("button", name="Add members…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("User names").fill("nobody-of-this-name")
    dialog.get_by_label("Role").select_option("reader")
    dialog.get_by_role("button", name="Add members").click()
    expect(dialog.get_by_role("alert").filter(has_text="no user")).to_be_visible()
    dialog.get_by_label("User names").fill("student02")
    dialog.get_by_role("button", name="Add members").click()
    expect(page.locator("#members tr[data-key=student02]")).to_contain_text("reader")
    expect(page.locator("#project")).to_contain_text("used 0 of 100 GPU-hours")
    expect(page.locator("#project")).to_contain_text("This site has none.")
    check(page, "project")

    # A member launches for it, from the project's page.
    open_project(page, demo, "student01")
    expect(page.get_by_role("button", name="Add members…")).to_be_hidden()
    page.get_by_role("link", name="Launch for this project").click()
    expect(page.get_by_label("For a project")).to_have_value(NAME)
    member, options = Person(demo.url, "student01"), {"project": NAME, "environment": "python-venv"}
    assert member.launch(options, "work").status_code in (201, 202)
    open_project(page, demo, "ada")
    work = page.locator("#work tr[data-key='student01/work']")
    expect(work).to_contain_text("running", timeout=LONG)

    # A reader sees that, changes nothing, and starts nothing that is charged to it.
    open_project(page, demo, "student02")
    expect(work).to_be_visible()
    page.get_by_role("button", name="More actions for Protein folding").click()
    expect(page.locator(".dropdown-menu.show li")).to_have_text(["Leave project…"])
    refused = Person(demo.url, "student02").launch({**options, "gpus": 1}, "work")
    assert refused.status_code == 403 and "You are a reader" in refused.text

    # An outsider sees nothing.
    open_project(page, demo, "barbara")
    expect(page.get_by_text(f"There is no project '{NAME}' that you can access.")).to_be_visible()
    page.goto(f"{demo.url}{PORTAL}projects")
    expect(page.locator("#list")).to_contain_text("You are in no project yet")
    check(page, "projects")
    assert Person(demo.url, "barbara").launch(options, "work").status_code == 403

    # Exported, and imported under another name.
    open_project(page, demo, "ada")
    page.get_by_role("button", name="More actions for Protein folding").click()
    with page.expect_download() as loaded:
        page.get_by_role("link", name="Export as YAML").click()
    file = tmp_path / "proteins.yaml"
    loaded.value.save_as(file)
    assert yaml.safe_load(file.read_text())["people"]["readers"] == ["student02"]
    page.goto(f"{demo.url}{PORTAL}projects")
    page.get_by_role("button", name="Import…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("File", exact=True).set_input_files(file)
    dialog.get_by_label("Name", exact=True).fill(COPY)
    dialog.get_by_role("button", name="Import project").click()
    expect(page).to_have_url(re.compile(f"/projects/{COPY}$"))
    expect(page.locator("#members tr[data-key]")).to_have_count(1)

    # The member is removed: the session is warned, and ends within five minutes.
    open_project(page, demo, "ada")
    choose(page, "Remove member…", "student01")
    page.get_by_role("dialog").get_by_role("button", name="Remove member").click()
    expect(page.locator("#members tr[data-key=student01]")).to_have_count(0)
    wait_until("the session has ended", lambda: not member.server("work"), 300)
    with Caller(demo.url, "student01") as caller:

        def words() -> str:
            own = [item for item in caller.items("sessions") if item["project"] == NAME]
            return str((own[0]["ending"] or {}).get("words", ""))

        assert "no longer a member of the project" in wait_until("the reason is known", words)
