"""TensorBoard in JupyterLab and on its own page, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from looks import violations
from session_server import TOKEN, SessionServer, a_server
from test_session_tensorboard import write_run

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

HOSTILE = "<img src=x onerror='window.hacked=1'>"


@pytest.fixture(scope="module")
def server(lab_python: Path) -> Iterator[SessionServer]:
    with a_server(lab_python) as running:
        write_run(running.home / "curves/first")
        write_run(running.home / HOSTILE / "second")
        yield running


@pytest.fixture
def tab(server: SessionServer, page: Any) -> Iterator[Any]:
    page.goto(f"{server.client.base_url}api?token={TOKEN}")
    yield page
    for board in server.ask("GET", "api/running").json()["running"]:
        server.stop(board)


def test_from_the_launcher_and_a_folders_menu(server: SessionServer, tab: Any) -> None:
    tab.goto(f"{server.client.base_url}lab?reset")
    card = tab.locator(".jp-LauncherCard", has_text="TensorBoard")
    expect(card).to_be_visible()
    tab.locator(".jp-DirListing-item", has_text="curves").click(button="right")
    tab.get_by_role("menuitem", name="Open in TensorBoard").click()
    board = tab.frame_locator("iframe[src*='portal/tensorboard']")
    expect(board.get_by_text("loss").first).to_be_visible()
    expect(tab.locator(".lm-TabBar-tabLabel", has_text="curves")).to_be_visible()
    tab.locator(".lm-TabBar-tabLabel", has_text="Launcher").click()
    card.click()
    dialog = tab.locator(".jp-Dialog")
    expect(dialog).to_contain_text("Open a folder with logs in TensorBoard")
    dialog.get_by_role("button", name=re.compile("Select|Open", re.I)).click()
    # The folder that the file browser shows: the home.
    expect(tab.locator(".lm-TabBar-tabLabel", has_text=server.home.name)).to_be_visible()
    assert len(server.ask("GET", "api/running").json()["running"]) == 2


def test_the_page_opens_lists_and_stops(server: SessionServer, tab: Any) -> None:
    tab.goto(f"{server.client.base_url}portal/tensorboard/")
    expect(tab.get_by_text("No TensorBoard is running.")).to_be_visible()
    tab.get_by_label("Select curves").check()
    tab.get_by_label(f"Select {HOSTILE}").check()
    tab.get_by_label("Name").fill(f"two {HOSTILE}")
    assert violations(tab) == []
    with tab.expect_popup() as opened:
        tab.get_by_role("button", name="Open TensorBoard").click()
    shown = opened.value
    expect(shown.get_by_text("loss").first).to_be_visible()
    expect(shown.get_by_text("curves/first").first).to_be_visible()
    link = tab.get_by_role("link", name=f"two {HOSTILE}")
    expect(link).to_be_visible()
    expect(tab.get_by_text("2 event files")).to_be_visible()
    assert violations(tab) == []
    tab.set_viewport_size({"width": 360, "height": 700})
    width = tab.evaluate("document.documentElement.scrollWidth")
    assert width <= 360
    tab.get_by_role("button", name=f"Stop two {HOSTILE}").click()
    expect(tab.get_by_text("No TensorBoard is running.")).to_be_visible()
    shown.reload()
    expect(shown.get_by_text("no longer running")).to_be_visible()
    assert violations(shown) == []
    tab.get_by_label("Folder", exact=True).fill("/etc")
    tab.get_by_role("button", name="Show folder").click()
    expect(tab.get_by_role("alert")).to_contain_text("/etc is outside the allowed")
    for one in (tab, shown):
        assert one.evaluate("window.hacked") is None


def test_tensorboard_looks_for_new_data_by_itself(server: SessionServer, tab: Any) -> None:
    board = server.start("curves")
    tab.goto(server.url + board["url"])
    expect(tab.get_by_text("loss").first).to_be_visible()
    kept = tab.evaluate("localStorage.getItem('_tb_global_settings')")
    assert '"autoReload":true' in kept
    assert Path(board["folders"][0]).name == "curves"
