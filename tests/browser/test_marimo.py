"""marimo is picked on the launch page, opens behind the session's login, and runs a cell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from api_client import Caller
from frameworks import python_of
from hub_client import Person
from jobs import living_jobs
from lab_page import log_in
from launch_story import ada
from listening import as_account, listening_sockets, reached
from looks import take_picture
from venv_environment import joined_venv, offered, packages_of, usual_venv

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
__all__ = ["ada"]

NAME = "with-marimo"


@pytest.fixture
def with_marimo(demo: Any) -> Iterator[None]:
    """An environment that opens marimo, tested and offered."""
    marimo = packages_of(python_of("marimo").parents[1])
    place = joined_venv(demo.home.demo / NAME, usual_venv(demo), marimo)
    with offered(demo, NAME, place, title="With marimo", opens=["marimo"], max_gpus=0):
        yield


def test_marimo_is_launched_and_runs_a_cell(
    demo: Any, with_marimo: None, ada: Person, page: Any
) -> None:
    log_in(page, demo)
    page.wait_for_url("**/hub/spawn*")
    opens = page.get_by_label("Open", exact=True)
    page.get_by_role("radio", name="Python (virtual environment)").check(force=True)
    assert opens.locator("option[value=marimo]").evaluate("option => option.disabled")
    page.get_by_role("radio", name="With marimo").check(force=True)
    opens.select_option("marimo")
    expect(page.locator("#launch-summary")).to_contain_text("marimo")
    take_picture(page, "marimo-launch", full_page=True)
    page.get_by_role("button", name="Start", exact=True).click()

    page.wait_for_url(re.compile(r"/user/ada/portal/program/"), timeout=120_000)
    (job,) = living_jobs(demo, "ada")
    expect(page.get_by_text("Create a new notebook")).to_be_visible(timeout=60_000)
    address = page.url
    page.goto(f"{address}?file=__new__")
    cell = page.locator(".cm-content").first
    cell.click()
    cell.fill("print(6 * 7, 'by marimo')")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".marimo-cell, body").first).to_contain_text("42 by marimo")
    take_picture(page, "marimo")

    # Behind the session's login: nobody else comes in, and no command line has its secret.
    with Caller(demo.url, "barbara") as other:
        answer = other.person.http.get(address, follow_redirects=False)
        assert answer.status_code in (302, 403) and "marimo" not in answer.text
    nobody = page.context.browser.new_context()
    visitor = nobody.new_page()
    visitor.goto(address)
    expect(visitor.get_by_label("User name")).to_be_visible()
    nobody.close()
    shown = demo.run(["ps", "-ewwo", "args"], demo.user("barbara")).stdout
    assert "marimo edit" in shown and "--token-password " not in shown
    assert [now.id for now in living_jobs(demo, "ada")] == [job.id]

    if demo.people:
        home = demo.run(["sh", "-c", "echo ~ada"]).stdout.strip()
        sockets = listening_sockets(as_account(demo, "ada"), home)
        assert len([at for kind, at in sockets if kind == "tcp"]) == 2, "marimo, and its session"
        assert reached(as_account(demo, "barbara"), sockets, "/user/ada/portal/program/") == {}
