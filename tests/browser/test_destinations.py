"""The dialog "Go to…", with the keyboard alone, on the service's pages and JupyterHub's."""

from __future__ import annotations

from typing import Any

import pytest
from looks import check
from sign_in import sign_in

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect
pytestmark = pytest.mark.usefixtures("unharmed")

PORTAL = "/services/portal/"


def options(page: Any) -> Any:
    """The results, without the options of other fields of the page."""
    return page.get_by_role("listbox", name="Destinations").get_by_role("option")


def selected(page: Any) -> Any:
    return page.locator("[role=option][aria-selected=true]")


def opened(page: Any) -> Any:
    """Open the dialog with its key; return its field."""
    page.wait_for_load_state()
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Go to")
    expect(field).to_be_focused()
    expect(selected(page)).to_have_count(1)
    return field


@pytest.mark.parametrize(
    "path", [f"{PORTAL}sessions", f"{PORTAL}catalog", "/hub/token", "/hub/spawn"]
)
def test_the_keyboard_goes_anywhere_from_any_page(demo: Any, page: Any, path: str) -> None:
    """On a page of the Hub the first search leads through the login at the service."""
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}{path}")
    field = opened(page)
    page.keyboard.type("usag")
    expect(options(page)).to_have_count(1)
    expect(selected(page)).to_contain_text("Usage")
    expect(field).to_have_attribute("aria-activedescendant", "find-option-0")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{demo.url}{PORTAL}usage")
    # The next time it comes first.
    opened(page)
    expect(page.get_by_role("group").first).to_contain_text("RecentUsage")


def test_the_dialog_is_a_combobox(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "grace")
    page.goto(f"{demo.url}{PORTAL}audit")
    page.locator("#portal-find").click()
    field = page.get_by_role("combobox", name="Go to")
    expect(field).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_role("group", name="Pages")).to_contain_text("Audit log")
    check(page, "destinations")
    page.keyboard.type("gpu01")
    expect(page.get_by_role("group", name="Nodes")).to_contain_text("gpu01")
    page.keyboard.press("Control+a")
    page.keyboard.type("users")
    expect(selected(page)).to_contain_text("Users")
    page.keyboard.press("Control+a")
    page.keyboard.type("s")
    expect(options(page).nth(2)).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(options(page).nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(options(page).last).to_have_attribute("aria-selected", "true")
    page.keyboard.type("xyz nothing")
    expect(page.get_by_role("status").filter(has_text="Nothing found.")).to_be_visible()
    expect(field).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#portal-find")).to_be_focused()


def test_a_user_finds_no_pages_of_admins(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}{PORTAL}sessions")
    opened(page)
    page.keyboard.type("audit")
    expect(page.get_by_role("status").filter(has_text="Nothing found.")).to_be_visible()
