"""Kernels in jobs of their own, as a person uses them in JupyterLab, driven by Playwright."""

from __future__ import annotations

import json
import re
from typing import Any

from lab_page import run_cell

CHOOSE = "Kernel with GPUs\u2026"
WHERE = """import json, os
names = ("PORTAL_JOB_ID", "SLURMD_NODENAME", "CUDA_VISIBLE_DEVICES")
print(json.dumps({name: os.environ.get(name) for name in names}), "done")
"""


def card(page: Any, title: str | re.Pattern[str]) -> Any:
    """The launcher's card for a new notebook."""
    cards = page.locator(".jp-LauncherCard[data-category='Notebook']")
    return cards.filter(has=page.locator(".jp-LauncherCard-label", has_text=title))


def item(page: Any) -> Any:
    """The item in the toolbar of the only notebook."""
    return page.locator(".portal-JobKernel")


def choose(page: Any, **resources: str) -> None:
    """Fill in the dialog and start the kernel."""
    dialog = page.get_by_role("dialog")
    for label, value in resources.items():
        field = dialog.get_by_label(label.replace("_", " "), exact=True)
        if field.evaluate("field => field.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    dialog.get_by_role("button", name="Start kernel").click()


def where(page: Any) -> dict[str, str]:
    """The answer of a cell that says where it runs."""
    return dict(json.loads(run_cell(page, WHERE).rpartition(" done")[0]))
