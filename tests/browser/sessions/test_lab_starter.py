"""The starter notebook that opens by itself at a user's first session of an environment, in
JupyterLab of a server whose portal is played."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from session_server import TOKEN, SessionServer, a_server

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

NOTEBOOK = json.dumps(
    {
        "cells": [{"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# Begin here"}],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
)
ANSWERS: dict[str, Any] = {
    "starters": {"environment": "torch", "starters": ["first.ipynb", "second.ipynb"]},
    "starters/first.ipynb": {"name": "first.ipynb", "text": NOTEBOOK},
    "starters/second.ipynb": {"name": "second.ipynb", "text": NOTEBOOK},
}


class Portal(BaseHTTPRequestHandler):
    """The portal's service, which knows nothing but the environment's starters."""

    def do_GET(self) -> None:
        answer = ANSWERS.get(self.path.partition("/api/v1/session/")[2])
        self.send_response(200 if answer else 404)
        self.end_headers()
        self.wfile.write(json.dumps(answer or {}).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def portal() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Portal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def server(lab_python: Path, portal: str) -> Iterator[SessionServer]:
    """A user's first session of the environment."""
    environment = {"PORTAL_SERVICE_URL": portal, "JUPYTERHUB_API_TOKEN": "x"}
    with a_server(lab_python, PORTAL_STARTERS="1", **environment) as running:
        (running.home / "notes.txt").write_text("words of a file")
        yield running


@pytest.fixture
def tab(server: SessionServer, page: Any) -> Any:
    page.goto(f"{server.client.base_url}api?token={TOKEN}")
    return page


def tabs(tab: Any, name: str) -> Any:
    return tab.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text=name)


def test_it_opens_once(server: SessionServer, tab: Any) -> None:
    tab.goto(f"{server.client.base_url}lab")
    expect(tabs(tab, "first.ipynb")).to_have_count(1)
    expect(tab.get_by_role("heading", name="Begin here")).to_be_visible()
    expect(tabs(tab, "second.ipynb")).to_have_count(0)
    # Nothing is open any more.
    tab.goto("about:blank")
    server.client.delete("lab/api/workspaces/default")
    tab.goto(f"{server.client.base_url}lab")
    expect(tab.locator(".jp-LauncherCard").first).to_be_visible()
    tab.wait_for_timeout(3000)
    expect(tabs(tab, "first.ipynb")).to_have_count(0)


def test_it_does_not_open_over_what_a_link_names(server: SessionServer, tab: Any) -> None:
    tab.goto(f"{server.client.base_url}lab/tree/notes.txt")
    expect(tabs(tab, "notes.txt")).to_have_count(1)
    tab.wait_for_timeout(4000)
    assert (server.home / "portal-starters/torch/first.ipynb").exists()
    expect(tabs(tab, "first.ipynb")).to_have_count(0)
