"""A real browser for tests: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import SOON, chromium
from session_server import add_lab_extension, make_python

playwright = pytest.importorskip("playwright.sync_api")
playwright.expect.set_options(timeout=SOON)


# Not for the whole run: while it is open, Playwright's own event loop runs in this thread, and no
# asyncio test can.
@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with chromium() as running:
        yield running


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
