"""JupyterLab as a person uses it, in a browser that Playwright drives."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from sign_in import sign_in

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect


def log_in(page: Any, demo: Any, name: str = "ada") -> None:
    """Sign in, and go where the portal leads."""
    sign_in(page, demo.url, name)
    page.goto(f"{demo.url}/")


def wait_for_kernel(page: Any) -> None:
    """Until the kernel is idle. Once in some hundred notebooks, JupyterLab never hears a new kernel
    and shows "Unknown" (the cause was not found): the page is loaded again, as a person does."""
    status = page.locator("#jp-main-statusbar")
    try:
        expect(status).to_contain_text("| Idle", timeout=90_000)
    except AssertionError:
        words = status.inner_text()
        if "Unknown" not in words:
            raise
        print(f"The page was loaded again, as JupyterLab said: {words}")
        page.reload()
        expect(status).to_contain_text("| Idle")


def run_cell(page: Any, code: str, last_word: str = "done") -> str:
    """Type a cell into the notebook that is open, run it, and give back what it printed, which
    ends with ``last_word``; in a notebook with outputs, one that is not among them yet."""
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
    """A notebook in a workspace of its own (``address``), in which nobody left anything open."""
    page.goto(f"{address}?reset")
    page.locator(".jp-LauncherCard[data-category='Notebook']").first.click()
    expect(page.locator(".jp-Notebook")).to_be_visible(timeout=60_000)
    expect(page.locator(".jp-NotebookPanel-toolbar")).to_contain_text("Python 3")


def toast(page: Any, words: str) -> Any:
    """A notification of JupyterLab."""
    return page.locator(".Toastify__toast", has_text=words)


def palette(page: Any, words: str) -> None:
    """JupyterLab's palette, with ``words`` looked for in it. Lab knows its keys a moment after it
    is seen; and where it was slow to hear the first, the second closes the palette again."""
    looked_for = page.locator(".lm-CommandPalette-input")
    for _ in range(30):
        if not looked_for.is_visible():
            page.keyboard.press("Control+Shift+C")
        with contextlib.suppress(playwright.TimeoutError):
            looked_for.fill(words, timeout=4000)
            return
    looked_for.fill(words)


def command(page: Any, words: str) -> None:
    """Run the command of this name from JupyterLab's palette."""
    palette(page, words)
    page.locator(".lm-CommandPalette-item", has_text=words).first.click()
