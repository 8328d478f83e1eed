"""Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator

import pytest

playwright = pytest.importorskip("playwright.sync_api")

SOON = 120_000
"""Milliseconds that a test waits for what a page does at once, where three parts of the suite share
two cores with their clusters. How soon it really is, is for the benchmarks."""

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--force-prefers-reduced-motion",  # nothing turns for nobody
]


PROGRAM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
"""Chromium without its windows, as Playwright's own; it draws with a third less of CPU time."""


@contextlib.contextmanager
def chromium(*flags: str) -> Iterator[playwright.Browser]:
    """The browser, started with these flags beside the usual ones."""
    if not PROGRAM:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=PROGRAM, args=[*FLAGS, *flags])
        yield running
        running.close()


@contextlib.contextmanager
def late(page: playwright.Page, asked: str) -> Iterator[None]:
    """What the page asks of addresses like ``asked`` meanwhile is answered a second later."""
    held: list[playwright.Route] = []
    over: list[bool] = []
    page.route(asked, lambda route: route.continue_() if over else held.append(route))
    yield
    while not held:
        page.wait_for_timeout(50)
    page.wait_for_timeout(1000)
    over.append(True)
    for route in held:
        route.continue_()
