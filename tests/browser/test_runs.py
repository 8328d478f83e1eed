"""A run as a data scientist goes through it, on the real demo: a notebook becomes 20 points, of
which two fail; only these run again; the best is found and opened; a colleague repeats it all.

Trainings that pass several time limits: tests/integration/runs/test_run_requeued.py. Chains on a
schedule: tests/hub/sessions/test_runs.py and the run's page (sessions/test_runs_page.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hub_client import Person, wait_until, with_session
from jobs import nothing_left
from sign_in import sign_in
from terminal import terminal

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

POINTS = 20
LONG = 600_000  # milliseconds: all points run, on a busy machine
CELLS = [
    ("lr = 1", ["parameters"]),
    ("import os, time\nfrom portal_metrics import log\nlog(loss=(lr - 7) ** 2)", []),
    (
        "if not os.path.exists('fixed'):\n"
        "    assert lr != 3, 'this rate diverges'\n"
        "    time.sleep(600 if lr == 5 else 0)",
        [],
    ),
]


@pytest.fixture(scope="module")
def ada(demo: Any) -> Iterator[Person]:
    """Ada in a session, with a notebook whose cell of parameters is tagged."""
    nothing_left(demo, "ada")
    person = Person(demo.url, "ada")
    for _ in with_session(person, {"environment": "python-venv", "gpus": 0, "time": "1:00:00"}):
        terminal(person, "rm -rf story; mkdir story; stat -c %a . >story/mode")
        code: dict[str, Any] = {"cell_type": "code", "outputs": [], "execution_count": None}
        cells = [{**code, "source": text, "metadata": {"tags": tags}} for text, tags in CELLS]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        about = {"metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4}
        model = {"type": "notebook", "format": "json", "content": {"cells": cells, **about}}
        assert person.session("PUT", "api/contents/story/train.ipynb", json=model).is_success
        yield person
        terminal(person, "chmod $(cat story/mode) .; rm -rf story")
    nothing_left(demo, "ada")


def test_from_a_notebook_to_a_colleagues_repetition(demo: Any, ada: Person, page: Any) -> None:
    options = "--cpus 1 --memory 512M --time 0:01:00 --at-once 4 --set lr=$(seq -s, 1 20)"
    wait_until(
        "the portal knows the session",
        lambda: "Results:" in terminal(ada, f"portal-run story/train.ipynb {options}"),
    )
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs")
    page.locator("#list").get_by_role("link", name="train", exact=True).click()
    run = page.locator("#run")
    expect(run).to_contain_text("18 succeeded, 2 failed", timeout=LONG)

    page.get_by_label("State").select_option("failed")
    failed = page.locator("#list")
    expect(failed).to_contain_text("AssertionError: this rate diverges (cell 4 of 4)")
    expect(failed).to_contain_text("The point was ended: the time limit of its job was reached")
    page.get_by_role("button", name="Point 2", exact=True).click()
    cells = page.get_by_role("region", name="Output", exact=True).get_by_role("listitem")
    expect(cells.filter(has_text="Cell 4 failed")).to_be_focused()
    page.keyboard.press("Escape")
    page.get_by_label("State").select_option("")

    terminal(ada, "touch story/fixed")
    page.get_by_role("button", name="Run failed points again").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Run 2 points of “train” again?")
    dialog.get_by_label("Time limit of each point").fill("0:10:00")
    dialog.get_by_role("button", name="Run again").click()
    expect(run).to_contain_text("20 succeeded", timeout=LONG)
    again = terminal(ada, "cd story/runs/train; ls -d *-2")
    assert again.split() == ["0002-2", "0004-2"], "what had succeeded did not run again"

    best = page.locator("#best")
    expect(best).to_contain_text("Point 6 with loss 0")
    best.get_by_role("button").click()
    panel = page.get_by_role("region", name="Point 6", exact=True)
    address = panel.get_by_role("link", name="Open in JupyterLab").get_attribute("href")
    lab = page.context.new_page()
    lab.goto(f"{demo.url}{address}")
    notebook = lab.locator(".jp-Notebook:visible")
    expect(notebook).to_contain_text("lr = 7", timeout=LONG)
    lab.close()

    expect(run).to_contain_text("ended", timeout=LONG)
    context = page.context.browser.new_context(viewport={"width": 1200, "height": 900})
    colleague = context.new_page()
    sign_in(colleague, demo.url, "barbara")  # before that, the portal knows no such user
    page.locator("#shares").get_by_role("button", name="Share run").click()
    dialog.get_by_label("Login name of the user").fill("barbara")
    dialog.get_by_role("button", name="Share", exact=True).click()
    expect(page.get_by_role("button", name="Stop sharing with barbara")).to_be_visible()
    terminal(ada, "chmod a+x .; chmod -R a+rX story")
    _repeat(demo, colleague)
    context.close()


def _repeat(demo: Any, page: Any) -> None:
    """Repeat the run as another user, from the list of what is shared with them."""
    page.goto(f"{demo.url}/services/portal/runs")
    page.locator("#shared").get_by_role("link", name="train", exact=True).click()
    page.get_by_role("button", name="Repeat exactly").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Repeat “train” as “train-2”?")
    dialog.get_by_role("button", name=re.compile("^Repeat")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("train-2", timeout=LONG)
    expect(page.locator("#run")).to_contain_text("20 succeeded", timeout=LONG)
    expect(page.locator("#best")).to_contain_text("Point 6 with loss 0")
