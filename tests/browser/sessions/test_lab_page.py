"""JupyterLab's page in a real browser: what it loads and keeps, and when its launcher opens."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from session_server import TOKEN, SessionServer, a_server, wait_for

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect


@pytest.fixture(scope="module")
def server(lab_python: Path) -> Iterator[SessionServer]:
    with a_server(lab_python, "--LabApp.cache_files=True") as running:
        (running.home / "notes.txt").write_text("words of a file")
        (running.home / "folder").mkdir()
        yield running


@pytest.fixture
def tab(server: SessionServer, page: Any) -> Any:
    """A page that is logged in, of somebody who has nothing open."""
    server.client.delete("lab/api/workspaces/default")
    page.goto(f"{server.client.base_url}api?token={TOKEN}")
    return page


def launchers(tab: Any) -> Any:
    return tab.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text="Launcher")


def test_the_launcher_does_not_wait_for_the_workspace(server: SessionServer, tab: Any) -> None:
    held: list[Any] = []
    over: list[bool] = []

    def save(route: Any) -> None:
        held.append(route) if route.request.method == "PUT" and not over else route.continue_()

    tab.route("**/lab/api/workspaces/**", save)
    tab.goto(f"{server.client.base_url}lab")
    expect(tab.locator(".jp-LauncherCard").first).to_be_visible()
    while not held:
        tab.wait_for_timeout(50)
    over.append(True)
    # JupyterLab looks into the folder again, and then would open a launcher itself.
    with tab.expect_response(lambda one: "/api/contents?" in one.url):
        for route in held:
            route.continue_()
    tab.wait_for_timeout(500)
    expect(launchers(tab)).to_have_count(1)


def test_it_starts_in_the_folder_that_was_open(server: SessionServer, tab: Any) -> None:
    tab.goto(f"{server.client.base_url}lab")
    with tab.expect_response(
        lambda one: "/lab/api/workspaces/" in one.url and one.request.method == "PUT"
    ):
        tab.locator(".jp-DirListing-item", has_text="folder").dblclick()
    expect(tab.locator(".jp-BreadCrumbs")).to_contain_text("folder")
    tab.wait_for_timeout(1500)  # until that is saved
    tab.goto(f"{server.client.base_url}lab")
    expect(tab.locator(".jp-Launcher-cwd")).to_have_text("folder")
    expect(launchers(tab)).to_have_count(1)


@pytest.mark.parametrize("address", ["lab/tree/notes.txt", "lab?file-browser-path=folder"])
def test_an_address_that_names_something_gets_what_jupyterlab_gives(
    server: SessionServer, tab: Any, address: str
) -> None:
    tab.goto(f"{server.client.base_url}{address}")
    if "tree" in address:
        expect(tab.locator(".lm-TabBar-tab", has_text="notes.txt").first).to_be_visible()
        tab.wait_for_timeout(2000)
        expect(launchers(tab)).to_have_count(0)
    else:
        expect(tab.locator(".jp-Launcher-cwd")).to_have_text("folder")


def test_scripts_are_loaded_once_and_kept(server: SessionServer, tab: Any) -> None:
    def visit() -> tuple[list[str], list[str]]:
        """The scripts that came from the server, and those from the browser's cache."""
        opened = tab.context.new_page()
        tools = tab.context.new_cdp_session(opened)
        tools.send("Network.enable")
        sent: list[str] = []
        kept: list[str] = []

        def note(event: Any) -> None:
            answer = event["response"]
            if event["type"] == "Script" or answer["url"].split("?")[0].endswith(".js"):
                (kept if answer["fromDiskCache"] else sent).append(answer["url"])

        tools.on("Network.responseReceived", note)
        opened.goto(f"{server.client.base_url}lab")
        opened.locator(".jp-LauncherCard").first.wait_for()
        opened.close()
        return sent, kept

    sent, kept = visit()
    assert len(sent) == len({url.split("?")[0] for url in sent}) > 30
    assert any("jlab_core" in url for url in sent)
    again, kept = visit()
    assert again == []
    assert len(kept) >= len(sent)


def test_it_opens_with_damaged_files_and_says_which_it_has_set_aside(
    lab_python: Path, page: Any, tmp_path: Path
) -> None:
    config, profile = tmp_path / "config/lab", tmp_path / "ipython/profile_default"
    damaged = {
        config / "user-settings/@jupyterlab/apputils-extension/themes.jupyterlab-settings": b'{"th',
        config / "workspaces/default-37a8.jupyterlab-workspace": b'{"data": {"la',
    }
    places = {"JUPYTER_CONFIG_DIR": str(config.parent), "IPYTHONDIR": str(profile.parent)}
    with a_server(lab_python, **places) as server:
        page.goto(f"{server.client.base_url}api?token={TOKEN}")
        for path, content in damaged.items():  # while the session runs
            path.parent.mkdir(parents=True)
            path.write_bytes(content)
        profile.mkdir(parents=True)
        connection = sqlite3.connect(profile / "history.sqlite")
        connection.executescript("CREATE TABLE sessions (a, b, c, d, e); CREATE TABLE history (a);")
        connection.close()
        with (profile / "history.sqlite").open("r+b") as file:
            file.seek(4096)
            file.write(bytes(2 * 4096))
        page.goto(f"{server.client.base_url}lab")
        expect(page.locator(".jp-LauncherCard").first).to_be_visible()
        for path in damaged:
            words = f"{path.name} was damaged and is now {path.name}.damaged"
            expect(page.locator(".jp-toastContainer", has_text=words)).to_be_visible()
        id = server.client.post("api/kernels", json={"name": "python3"}).json()["id"]
        wait_for(lambda: list(profile.glob("history.sqlite")), server.log.read_text)
        assert server.client.get(f"api/kernels/{id}").json()["execution_state"] != "dead"
        page.reload()
        expect(page.locator(".jp-LauncherCard").first).to_be_visible()
        page.wait_for_timeout(500)
        expect(page.get_by_text("was damaged")).to_have_count(0)
