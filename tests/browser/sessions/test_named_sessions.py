"""Named sessions on the Sessions page, as a person uses them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from looks import check
from sign_in import sign_in

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

HOSTILE = "Second <img src=x onerror=window.hacked=1>"


def test_a_name_is_added_and_removed(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "student12")
    page.goto(f"{demo.url}/hub/home")
    page.wait_for_url("**/services/portal/home")
    page.get_by_role("link", name="Sessions", exact=True).click()
    page.wait_for_url("**/services/portal/sessions")
    page.get_by_label("Session name").fill(HOSTILE)
    page.get_by_role("button", name="Add a named session").click()
    page.wait_for_url("**/hub/spawn/student12/second-*")
    expect(page.locator("#spawn_form")).to_be_visible()
    page.get_by_text("Python (virtual environment)").first.click()
    page.locator("label[for='launch-gpus-0']").click()
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url(re.compile(r"/(user|spawn-pending)/student12/second-"))
    page.goto(f"{demo.url}/services/portal/sessions")
    page.locator("#living").get_by_role("button", name=re.compile("More actions")).click()
    menu = page.locator(".dropdown-menu.show")
    menu.get_by_role("button", name=re.compile("Stop|Cancel")).click()
    page.get_by_role("dialog").get_by_role("button", name=re.compile("Stop|Cancel")).click()
    row = page.locator("#named-list .entry")
    expect(row).to_contain_text(HOSTILE)
    start = row.get_by_role("link", name="Start").get_attribute("href")
    assert "/hub/spawn/student12/second-" in start
    check(page, "sessions-named")
    row.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)
    assert page.evaluate("window.hacked") is None
