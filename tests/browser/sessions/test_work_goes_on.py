"""Work goes on without a browser: Chromium is closed, or cut off, in the middle of a cell.

On the real demo. Everything between Chromium and the proxy goes through a relay that can be cut.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from chromium import SOON, chromium
from hub_client import Person, wait_until, with_session
from sign_in import sign_in

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

OPTIONS = {"environment": "python-venv", "partition": "cpu"}
LINES = 20
SLOW = f"""import time
for at in range({LINES}):
    print('line', at, flush=True); time.sleep(0.5)
"""
WHOLE = "".join(f"line {at}\n" for at in range(LINES))


class Relay:
    """A port of its own that leads to the portal. ``cut``: nothing gets through, and neither side
    hears of it, as when a cable is pulled; ``restore`` ends the old connections.

    ``flag`` makes Chromium take it for the portal, whose addresses stay what they are.
    """

    def __init__(self, url: str) -> None:
        self._to = ("127.0.0.1", urlsplit(url).port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        here = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.flag = f"--host-resolver-rules=MAP *:{self._to[1]} {here}"
        self._open: list[socket.socket] = []
        self._through = threading.Event()
        self._through.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        assert self._open, "Chromium went past the relay"
        self._through.clear()

    def restore(self) -> None:
        for one in self._open:
            self._end(one)
        self._open = []
        self._through.set()

    def close(self) -> None:
        self._listener.close()
        self.restore()

    def _accept(self) -> None:
        while True:
            try:
                browser, _ = self._listener.accept()
            except OSError:
                return
            if not self._through.is_set():
                browser.close()
                continue
            portal = socket.create_connection(self._to)
            self._open += [browser, portal]
            for one, other in ((browser, portal), (portal, browser)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                if not self._through.is_set():
                    return  # it is lost
                other.sendall(data)
        except OSError:
            pass
        if self._through.is_set():
            self._end(other)

    @staticmethod
    def _end(one: socket.socket) -> None:
        try:
            one.shutdown(socket.SHUT_RDWR)
            one.close()
        except OSError:
            pass


class Notebook:
    """A notebook in the home of the session's owner, as it is on disk."""

    def __init__(self, person: Person, name: str) -> None:
        self.person, self.name = person, name
        cell = {"cell_type": "code", "id": "slow", "source": SLOW, "metadata": {}, "outputs": []}
        content = {"cells": [cell | {"execution_count": None}], "nbformat": 4, "nbformat_minor": 5}
        content["metadata"] = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
        made = person.session(
            "PUT", f"api/contents/{name}", json={"type": "notebook", "content": content}
        )
        assert made.status_code == 201, made.text

    def printed(self) -> str:
        answer = self.person.session("GET", f"files/{self.name}")
        if not answer.text:
            return ""  # it is being written
        (cell, *_) = json.loads(answer.text)["cells"]
        return "".join("".join(one.get("text", [])) for one in cell["outputs"])


@pytest.fixture(scope="module")
def ada(demo: Any) -> Iterator[Person]:
    """Ada, with one session for all tests here."""
    yield from with_session(Person(demo.url, "ada"), OPTIONS)


@pytest.fixture(scope="module")
def relay(demo: Any) -> Iterator[Relay]:
    one = Relay(demo.url)
    yield one
    one.close()


@pytest.fixture(scope="module")
def browser(relay: Relay) -> Iterator[Any]:
    with chromium(relay.flag) as running:
        yield running


@pytest.fixture
def notebook(ada: Person) -> Iterator[Notebook]:
    made = Notebook(ada, f"goes-on-{time.time_ns()}.ipynb")
    yield made
    for one in ada.session("GET", "api/sessions").json():
        ada.session("DELETE", f"api/sessions/{one['id']}")
    ada.session("DELETE", f"api/contents/{made.name}")


@pytest.fixture
def context(browser: Any, demo: Any, relay: Relay) -> Iterator[Any]:
    """A browser's profile that is logged in."""
    relay.restore()
    made = browser.new_context(viewport={"width": 1200, "height": 900})
    made.set_default_timeout(SOON)
    page = made.new_page()
    sign_in(page, demo.url, "ada")
    page.close()
    yield made
    made.close()


def open_notebook(context: Any, notebook: Notebook) -> Any:
    page = context.new_page()
    base = notebook.person.session_url()
    page.goto(f"{base}lab/workspaces/w{time.time_ns()}/tree/{notebook.name}?reset")
    expect(page.locator(".jp-Notebook")).to_be_visible()
    return page


def run(page: Any) -> None:
    """Run the first cell, and wait for some lines of it."""
    expect(page.locator("#jp-main-statusbar")).to_contain_text("| Idle")
    page.locator(".jp-Notebook-cell .cm-content").first.click()
    page.keyboard.press("Control+Enter")
    expect(shown(page)).to_contain_text("line 2")


def shown(page: Any) -> Any:
    return page.locator(".jp-Notebook-cell").first.locator(".jp-OutputArea-output pre")


def test_chromium_is_closed_in_the_middle_of_a_cell(context: Any, notebook: Notebook) -> None:
    page = open_notebook(context, notebook)
    run(page)
    page.close()
    wait_until("all of it is on disk", lambda: notebook.printed() == WHOLE, timeout=240)
    again = open_notebook(context, notebook)
    expect(shown(again)).to_have_text(WHOLE)
    expect(again.locator(".jp-InputPrompt").first).to_have_text("[1]:")


def test_it_is_opened_again_while_the_cell_runs(context: Any, notebook: Notebook) -> None:
    page = open_notebook(context, notebook)
    run(page)
    page.close()
    again = open_notebook(context, notebook)
    # What was printed before, and then all that comes.
    expect(shown(again)).to_contain_text("line 0")
    expect(shown(again)).to_have_text(WHOLE)
    expect(again.locator(".jp-InputPrompt").first).to_have_text("[1]:")
    # JupyterLab saves it by itself, and nobody is asked whose version is right.
    wait_until("JupyterLab has saved it", lambda: notebook.printed() == WHOLE, timeout=240)
    assert again.locator(".jp-Dialog").count() == 0


def test_the_network_drops_in_the_middle_of_a_cell(
    context: Any, relay: Relay, notebook: Notebook
) -> None:
    page = open_notebook(context, notebook)
    run(page)
    # JupyterLab takes a network that is down for a server that is not running, and asks.
    dismiss = page.get_by_role("button", name="Dismiss")
    page.add_locator_handler(dismiss, lambda: dismiss.click())
    # A save of its own that falls into that time says that it failed.
    save_failed = page.locator("dialog[aria-label^='File Save Error']")
    page.add_locator_handler(save_failed, lambda: save_failed.get_by_role("button").last.click())
    relay.cut()
    kernel = wait_until("the kernel", lambda: notebook.person.session("GET", "api/kernels").json())
    wait_until(
        "the cell has ended without its page",
        lambda: (
            notebook.person.session("GET", f"api/kernels/{kernel[0]['id']}").json()[
                "execution_state"
            ]
            == "idle"
        ),
        timeout=240,
    )
    relay.restore()
    expect(shown(page)).to_have_text(WHOLE)
    expect(page.locator(".jp-InputPrompt").first).to_have_text("[1]:")
    # By hand: after a save that hung, JupyterLab's own waits ten times as long as that one took.
    page.locator(".jp-Notebook-cell .cm-content").first.click()
    page.keyboard.press("Control+s")
    wait_until("JupyterLab has saved it", lambda: notebook.printed() == WHOLE, timeout=240)
    assert page.get_by_text("has changed on disk").count() == 0
