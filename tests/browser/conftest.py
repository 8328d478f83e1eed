"""A real browser for tests: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import SOON, chromium
from session_server import add_lab_extension, make_python

playwright = pytest.importorskip("playwright.sync_api")
playwright.expect.set_options(timeout=SOON)


_running = contextlib.ExitStack()  # the browser of these tests, started by the first of them
_browser: list[playwright.Browser] = []


@pytest.fixture(scope="module")
def browser() -> playwright.Browser:
    if not _browser:
        _browser.append(_running.enter_context(chromium()))
    return _browser[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """End the browser before tests that are none of these, and before modules with one of their
    own: while it is open, Playwright's event loop runs in this thread, and no other can."""
    yield
    if nextitem is None or not _shares_browser(nextitem):
        _browser.clear()
        _running.close()


def _shares_browser(item: pytest.Item) -> bool:
    return item.path.is_relative_to(Path(__file__).parent) and not hasattr(item.module, "browser")


@pytest.fixture
def page(browser: playwright.Browser) -> Iterator[playwright.Page]:
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(SOON)
    opened = context.new_page()
    opened.errors = []
    opened.on("pageerror", lambda error: opened.errors.append(str(error)))
    yield opened
    context.close()
    assert opened.errors == []


@pytest.fixture
def unharmed(page: playwright.Page) -> Iterator[None]:
    """What the page's Content-Security-Policy blocks fails the test, and so does markup that came
    to life."""
    page.on(
        "console",
        lambda said: (
            page.errors.append(said.text) if "Content Security Policy" in said.text else None
        ),
    )
    yield
    assert page.evaluate("window.hacked") is None


@pytest.fixture(scope="module")
def lab_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the portal's extension of JupyterLab."""
    python = make_python(tmp_path_factory.mktemp("lab") / "venv")
    add_lab_extension(python)
    return python
