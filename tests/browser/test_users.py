"""The page of users, on the real demo: who is shown, what an admin does, and where JupyterHub's own
page is."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hub_client import Person
from looks import check
from sign_in import sign_in

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect
pytestmark = pytest.mark.usefixtures("unharmed")

PORTAL = "/services/portal/"


def row_of(page: Any, name: str) -> Any:
    return page.locator(f"#list tr[data-key='{name}']")


def confirm(page: Any, button: str) -> None:
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name=button, exact=True).click()
    expect(dialog).to_have_count(0)


def users(page: Any, demo: Any, query: str = "") -> None:
    sign_in(page, demo.url, "grace")
    page.goto(f"{demo.url}/hub/admin{query}")


def test_an_admin_finds_and_changes_users(demo: Any, page: Any) -> None:
    for name in ("ada", "student30"):
        assert Person(demo.url, name).logged_in
    users(page, demo)
    expect(page).to_have_url(f"{demo.url}{PORTAL}users")
    expect(row_of(page, "ada")).to_be_visible()
    check(page, "users")
    page.get_by_label("Search", exact=True).fill("ent30")
    expect(page.locator("#list-count")).to_have_text("1 user")
    expect(page).to_have_url(f"{demo.url}{PORTAL}users?text=ent30")
    row = row_of(page, "student30")
    row.get_by_role("button", name="Make admin… student30").click()
    confirm(page, "Make admin")
    expect(row.get_by_role("cell", name="admin", exact=True)).to_be_visible()
    row.get_by_role("button", name="Remove admin… student30").click()
    confirm(page, "Remove admin")
    expect(row.get_by_role("button", name="Make admin… student30")).to_be_visible()
    row.get_by_role("button", name="Delete… student30").click()
    confirm(page, "Delete user")
    expect(page.locator("#list")).to_contain_text("No users match these filters.")
    page.goto(f"{demo.url}{PORTAL}audit")
    for action in ("Make admin", "Remove admin", "Delete user"):
        expect(page.locator("#list")).to_contain_text(action)


def test_the_owner_of_a_session_reads_why_an_admin_stopped_it(demo: Any, page: Any) -> None:
    ada = Person(demo.url, "ada")
    assert ada.launch({"environment": "python-venv"}).status_code in (201, 202)
    users(page, demo)
    row = row_of(page, "ada")
    expect(row.get_by_role("link", name="1 session of ada")).to_be_visible()
    expect(row.get_by_role("button", name="Open session… ada")).to_have_count(0)  # admin_access
    row.get_by_role("button", name="Stop session… ada").click()
    dialog = page.get_by_role("dialog")
    field = dialog.get_by_label("Reason, which ada reads")
    dialog.get_by_role("button", name="Stop", exact=True).click()
    expect(dialog).to_be_visible()
    field.fill("gpu01 is repaired")
    confirm(page, "Stop")
    expect(page.locator("#board-toasts")).to_contain_text("The session is being stopped.")
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}{PORTAL}sessions")
    why = "An administrator (grace) stopped the session: gpu01 is repaired"
    expect(page.get_by_text(why).first).to_be_visible()


def test_jupyterhubs_own_page_is_still_there(demo: Any, page: Any) -> None:
    users(page, demo, "?stock=1")
    expect(page.get_by_role("link", name="Add Users")).to_be_visible()
    page.goto(f"{demo.url}{PORTAL}users")
    page.get_by_role("link", name=re.compile("admin page")).click()
    expect(page.get_by_role("link", name="Manage Groups")).to_be_visible()


def test_others_do_not_see_it(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}{PORTAL}users")
    expect(page.locator("main")).to_contain_text("You are not allowed to see this page")
