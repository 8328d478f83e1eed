"""JupyterLab as a person uses it, in a browser driven by Playwright."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from sign_in import sign_in

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect


def log_in(page: Any, demo: Any, name: str = "ada") -> None:
    """Sign in and open the portal's start page."""
    sign_in(page, demo.url, name)
    page.goto(f"{demo.url}/")


def wait_for_kernel(page: Any) -> None:
    """Wait until the kernel is idle. Once in some hundred notebooks, JupyterLab never hears from a
    new kernel and shows "Unknown" (cause not found): then reload the page, as a person would."""
    status = page.locator("#jp-main-statusbar")
    try:
        expect(status).to_contain_text("| Idle", timeout=90_000)
    except AssertionError:
        text = status.inner_text()
        if "Unknown" not in text:
            raise
        print(f"The page was loaded again, as JupyterLab said: {text}")
        page.reload()
        expect(status).to_contain_text("| Idle")


def run_cell(page: Any, code: str, last_word: str = "done") -> str:
    """Type a cell into the open notebook, run it and return its output, which must end with
    ``last_word``: a word that no earlier output of the notebook contains."""
    wait_for_kernel(page)
    cell = page.locator(".jp-Notebook-cell .cm-content").last
    cell.click()
    cell.fill(code)
    expect(cell).to_contain_text(last_word)
    page.keyboard.press("Shift+Enter")
    output = page.locator(".jp-OutputArea-output pre").last
    expect(output).to_contain_text(last_word)
    return str(output.inner_text())


def new_notebook(page: Any, address: str) -> None:
    """Open a notebook in a workspace of its own (``address``), with nothing else open."""
    page.goto(f"{address}?reset")
    page.locator(".jp-LauncherCard[data-category='Notebook']").first.click()
    expect(page.locator(".jp-Notebook")).to_be_visible(timeout=60_000)
    expect(page.locator(".jp-NotebookPanel-toolbar")).to_contain_text("Python 3")


def toast(page: Any, words: str) -> Any:
    """Return a notification of JupyterLab."""
    return page.locator(".Toastify__toast", has_text=words)


def palette(page: Any, words: str) -> None:
    """Open JupyterLab's palette and search for ``words``. JupyterLab reacts to keys only a moment
    after it is shown, and if it was slow, a second key press closes the palette again."""
    search = page.locator(".lm-CommandPalette-input")
    for _ in range(30):
        if not search.is_visible():
            page.keyboard.press("Control+Shift+C")
        with contextlib.suppress(playwright.TimeoutError):
            search.fill(words, timeout=4000)
            return
    search.fill(words)


def command(page: Any, words: str) -> None:
    """Run the command of this name from JupyterLab's palette, which closes when something else
    takes the focus."""
    item = page.locator(".lm-CommandPalette-item", has_text=words).first
    for _ in range(5):
        palette(page, words)
        with contextlib.suppress(playwright.TimeoutError):
            item.click(timeout=10_000)
            return
    palette(page, words)
    item.click()
