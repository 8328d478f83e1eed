"""Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator

import pytest

from tests.support.suite.machine import patience

playwright = pytest.importorskip("playwright.sync_api")

SOON = patience(120_000)
"""Milliseconds to wait for an immediate reaction of a page, while three parts of the suite and
their clusters share two cores. The benchmarks measure the real times."""

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--force-prefers-reduced-motion",  # no animations that nobody sees
]


PROGRAM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
"""Headless Chromium, as Playwright's own, if present; it draws with a third less CPU time."""


@contextlib.contextmanager
def chromium(*flags: str) -> Iterator[playwright.Browser]:
    """Yield the browser, started with these flags in addition to the usual ones."""
    if not PROGRAM:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=PROGRAM, args=[*FLAGS, *flags])
        yield running
        running.close()


@contextlib.contextmanager
def late(page: playwright.Page, asked: str) -> Iterator[None]:
    """Delay the page's requests to addresses like ``asked``, made meanwhile, by a second."""
    held: list[playwright.Route] = []
    released: list[bool] = []
    page.route(asked, lambda route: route.continue_() if released else held.append(route))
    yield
    while not held:
        page.wait_for_timeout(50)
    page.wait_for_timeout(1000)
    released.append(True)
    for route in held:
        route.continue_()
