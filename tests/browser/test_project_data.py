"""Uploads in JupyterLab: progress, pause, a page that is loaded again, refusals in words."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from looks import violations
from session_server import BASE, TOKEN, SessionServer, a_server, wait_for

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
    return opened(server, page)


def opened(server: SessionServer, page: Any) -> Any:
    page.goto(f"{server.url}{BASE}lab/tree/data?token={TOKEN}&reset")
    page.locator("[data-id=portal-uploads-panel]").click()
    # The file browser opens its folder late.
    region = page.get_by_role("region", name="Uploads", exact=True)
    expect(region).to_contain_text("To: data")
    return region


def choose(page: Any, panel: Any, *files: Path) -> None:
    with page.expect_file_chooser() as chooser:
        panel.get_by_role("button", name="Choose files…").click()
    chooser.value.set_files([str(file) for file in files])


def test_a_file_that_a_closed_page_has_left(
    server: SessionServer, page: Any, panel: Any, tmp_path: Path
) -> None:
    file, target = tmp_path / "large.bin", server.home / "data" / "large.bin"
    data = random.Random(1).randbytes(40 * MIB)
    file.write_bytes(data)
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 10 * MIB}
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    network.send("Network.emulateNetworkConditions", slow)
    choose(page, panel, file)
    wait_for(lambda: any(path.stat().st_size > 2 * MIB for path in target.parent.glob("*.part")))
    panel.get_by_role("button", name="Pause the upload of large.bin").click()
    expect(panel.get_by_role("status")).to_contain_text(re.compile(r"Paused\. \d.* of 42 MB\."))
    assert violations(page, ".portal-Panel") == []
    assert not target.exists()
    page.goto(f"{server.url}{BASE}api")
    opened(server, page)
    unfinished = panel.get_by_role("list", name="Unfinished uploads")
    expect(unfinished).to_contain_text(f"of 42 MB, to {target.parent}")
    network.send("Network.emulateNetworkConditions", {**slow, "uploadThroughput": -1})
    (part,) = target.parent.glob("*.part")
    arrived = part.stat()
    assert arrived.st_size < len(data)
    choose(page, panel, file)
    expect(panel.get_by_role("status")).to_contain_text("42 MB have arrived.", timeout=60_000)
    whole = target.read_bytes()
    assert hashlib.sha256(whole).digest() == hashlib.sha256(data).digest()
    assert target.stat().st_ino == arrived.st_ino  # it went on
    expect(unfinished).to_be_empty()


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
