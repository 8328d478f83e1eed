"""code-server, the editor of an environment, as data: beside JupyterLab in a running session and
instead of it. A file is edited and run on the node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import code_server
import pytest
from api_client import Caller
from hub_client import Person, wait_until
from jobs import living_jobs
from lab_page import log_in
from launch_story import ada
from listening import as_account, listening_sockets, reached
from local_hosts import host_of
from looks import take_picture
from menu_items import menu_item
from venv_environment import joined_venv, offered, usual_venv

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
__all__ = ["ada"]

NAME = "with-code-server"
FOLDER = "test-code-server"
SCRIPT = "import os; print(6 * 7, os.environ['PORTAL_JOB_ID'])"


@pytest.fixture
def environment(demo: Any) -> Iterator[None]:
    """An environment that opens code-server, tested and offered."""
    place = joined_venv(demo.home.demo / NAME, usual_venv(demo))
    for name, program in code_server.programs().items():
        (place / "bin" / name).symlink_to(program)
    try:
        with offered(
            demo, NAME, place, title="With code-server", opens=["code-server"], max_gpus=0
        ):
            yield
    finally:
        demo.run(["rm", "-rf", FOLDER], user=demo.user("ada"), check=False)


def opened(page: Any, click: Any) -> Any:
    """Click what opens code-server; return its tab."""
    with page.context.expect_page() as found:
        click()
    return found.value


def edit_and_run(demo: Any, editor: Any, name: str) -> str:
    """Edit a file in code-server and run it in its terminal; return what it printed."""
    trust = editor.get_by_role("button", name=re.compile("^(Yes, I trust|Trust Folder)"))
    editor.add_locator_handler(trust, lambda: trust.click())  # whenever it asks
    expect(editor.locator(".monaco-workbench")).to_be_visible(timeout=120_000)
    editor.locator(".explorer-folders-view").wait_for()
    editor.keyboard.press("Control+P")
    search = editor.locator(".quick-input-widget input").first
    search.fill(f"{FOLDER}/{name}.py")
    entry = editor.locator(".quick-input-list .monaco-list-row", has_text=f"{name}.py").first
    entry.wait_for()
    search.press("Enter")
    expect(editor.locator(".tab", has_text=f"{name}.py")).to_be_visible()
    path, output = f"{FOLDER}/{name}.py", f"{FOLDER}/{name}.txt"

    def read(file: str) -> str:
        return str(demo.run(["cat", file], user=demo.user("ada"), check=False).stdout).strip()

    def saved() -> bool:
        editor.locator(".editor-instance .view-lines").first.click()
        editor.keyboard.press("Control+A")
        editor.keyboard.insert_text(SCRIPT)
        editor.keyboard.press("Control+S")
        return read(path) == SCRIPT

    def ran() -> str:
        editor.locator(".xterm-screen").first.click()
        editor.keyboard.type(f"python3 {path} > {output}~ && mv {output}~ {output}\n")
        return read(output)

    # Each is tried again: while it loads, other parts of the page take the keyboard.
    wait_until("the file is saved", saved)
    editor.keyboard.press("Control+Backquote")
    wait_until("the file has run", ran)
    return read(output)


def test_it_opens_beside_jupyterlab_and_instead_of_it(
    demo: Any, environment: None, ada: Person, page: Any
) -> None:
    user = demo.user("ada")
    demo.run(["mkdir", FOLDER], user=user)
    for name in ("first", "second"):
        demo.run(["sh", "-c", f"echo '# empty' > {FOLDER}/{name}.py"], user=user)
    ada.launch({"environment": NAME, "time": "0:30:00"})
    ada.wait_ready()
    (job,) = living_jobs(demo, "ada")
    log_in(page, demo)

    # From the Sessions page.
    page.goto(f"{demo.url}/services/portal/sessions")
    link = menu_item(page.locator("#living"), "Open code-server", "link")
    expect(link).to_be_visible()
    take_picture(page, "code-server-session")
    editor = opened(page, link.click)
    assert edit_and_run(demo, editor, "first") == f"42 {job.id}"
    assert re.search(r"/user/ada/portal/programs/code-server/", editor.url)
    take_picture(editor, "code-server")
    address = editor.url
    editor.close()

    # From JupyterLab's launcher: the same one.
    page.goto(f"{host_of(demo.url, 'ada')}/user/ada/lab/workspaces/test-code-server?reset")
    card = page.locator(".jp-LauncherCard", has_text="code-server")
    expect(card).to_be_visible()
    take_picture(page, "code-server-launcher")
    editor = opened(page, card.click)
    expect(editor.locator(".monaco-workbench")).to_be_visible(timeout=60_000)
    editor.close()
    assert [now.id for now in living_jobs(demo, "ada")] == [job.id]

    # Behind the session's login, and for nobody else on its node.
    with Caller(demo.url, "barbara") as other:
        answer = other.person.http.get(address, follow_redirects=False)
        assert answer.status_code in (302, 403) and "workbench" not in answer.text
    if demo.people:
        home = demo.run(["sh", "-c", "echo ~ada"]).stdout.strip()
        sockets = listening_sockets(as_account(demo, "ada"), home)
        assert any(str(at).endswith("/socket") for kind, at in sockets if kind == "unix")
        assert len([at for kind, at in sockets if kind == "tcp"]) == 1, "the session's own port"
        path = "/user/ada/portal/programs/code-server/"
        assert reached(as_account(demo, "barbara"), sockets, path) == {}
    ada.stop()
    wait_until("the job has ended", lambda: living_jobs(demo, "ada") == [])

    # Instead of JupyterLab, from the launch page.
    page.goto(f"{demo.url}/hub/spawn/ada")
    page.get_by_role("radio", name="With code-server").check(force=True)
    page.get_by_label("Open", exact=True).select_option("code-server")
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url(re.compile(r"/user/ada/portal/program/"), timeout=120_000)
    (job,) = living_jobs(demo, "ada")
    assert edit_and_run(demo, page, "second") == f"42 {job.id}"
    take_picture(page, "code-server-instead")
    # The launch page opens what was opened last: JupyterLab again, for the tests after this one.
    ada.stop()
    ada.launch({"environment": NAME, "time": "0:30:00"})
    ada.wait_ready()
