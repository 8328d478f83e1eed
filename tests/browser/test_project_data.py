"""Uploads in JupyterLab: progress, pause, a page that is loaded again, refusals in words."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from looks import violations
from session_server import BASE, TOKEN, SessionServer, a_server

expect = pytest.importorskip("playwright.sync_api").expect
MIB = 1 << 20


@pytest.fixture(scope="module")
def server(lab_python: Path) -> Iterator[SessionServer]:
    with a_server(lab_python) as running:
        (running.home / "data").mkdir()
        yield running


@pytest.fixture
def panel(server: SessionServer, page: Any) -> Any:
    """The panel, with ``data`` in the file browser."""
    opened(server, page)
    return page.get_by_role("region", name="Uploads", exact=True)


def opened(server: SessionServer, page: Any) -> None:
    page.goto(f"{server.url}{BASE}lab/tree/data?token={TOKEN}&reset")
    page.get_by_role("tab", name="Uploads: large files").click()


def choose(page: Any, panel: Any, *files: Path) -> None:
    with page.expect_file_chooser() as chooser:
        panel.get_by_role("button", name="Choose files…").click()
    chooser.value.set_files([str(file) for file in files])


def test_a_file_that_a_closed_page_has_left(
    server: SessionServer, page: Any, panel: Any, tmp_path: Path
) -> None:
    file = tmp_path / "large.bin"
    data = random.Random(1).randbytes(70 * MIB)  # more than a piece
    file.write_bytes(data)
    pieces = []

    def second_fails(route: Any) -> None:
        """Let the network fail after the first piece."""
        pieces.append(route.request.headers.get("upload-offset"))
        route.abort() if len(pieces) > 1 else route.continue_()

    page.route("**/portal/uploads/*", second_fails)
    expect(panel).to_contain_text("To: data")
    choose(page, panel, file)
    expect(panel.get_by_role("status")).to_contain_text("67 MB of 73 MB", timeout=60_000)
    assert not (server.home / "data" / "large.bin").exists()
    panel.get_by_role("button", name="Pause the upload of large.bin").click()
    expect(panel.get_by_role("status")).to_contain_text("Paused. 67 MB of 73 MB.")
    assert violations(page, ".portal-Panel") == []
    page.unroute("**/portal/uploads/*")
    opened(server, page)
    expect(panel.get_by_role("list", name="Unfinished uploads")).to_contain_text("67 MB of 73 MB")
    choose(page, panel, file)
    expect(panel.get_by_role("status")).to_contain_text("73 MB have arrived.", timeout=60_000)
    whole = (server.home / "data" / "large.bin").read_bytes()
    assert hashlib.sha256(whole).digest() == hashlib.sha256(data).digest()
    expect(panel.get_by_role("list", name="Unfinished uploads")).to_have_text("")


def test_a_file_that_is_there_is_replaced_after_a_question(
    server: SessionServer, page: Any, panel: Any, tmp_path: Path
) -> None:
    target, file = server.home / "data" / "old.txt", tmp_path / "old.txt"
    target.write_text("before")
    file.write_text("after")
    choose(page, panel, file)
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("old.txt exists.")
    question.get_by_role("button", name="Cancel").click()
    expect(panel.get_by_role("status")).to_contain_text("old.txt exists.")
    assert target.read_text() == "before"
    panel.get_by_role("button", name="Try again the upload of old.txt").click()
    page.get_by_role("dialog").get_by_role("button", name="Replace").click()
    expect(panel.get_by_role("status")).to_contain_text("5 B have arrived.")
    assert target.read_text() == "after"
