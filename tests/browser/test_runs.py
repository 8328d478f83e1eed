"""Runs as a data scientist goes through them, on the real demo: a notebook becomes 20 points, of
which two fail; only these run again; the best is found and opened; a colleague repeats it all. A
chain is repeated each night, and a training passes three time limits.

The training is started first and looked at last: Slurm counts time limits in minutes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hub_client import Person, wait_until, with_session
from jobs import nothing_left
from remembered import stored
from sign_in import sign_in
from terminal import terminal

from portal.store import Store

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

LONG = 600_000  # milliseconds: all points run, on a busy machine
CELLS = [
    ("lr = 1", ["parameters"]),
    (
        "import os, time\nfrom portal_metrics import log, log_table\nlog(loss=(lr - 7) ** 2)\n"
        "log_table('result', [['rate', 'loss'], [lr, (lr - 7) ** 2]])",
        [],
    ),
    (
        "if not os.path.exists('fixed'):\n"
        "    assert lr != 3, 'this rate diverges'\n"
        "    time.sleep(600 if lr == 5 else 0)",
        [],
    ),
]
# Three minutes in jobs of one. The fourth has nothing more to show, nor has the session: no pauses.
TRAINING = """
import os, random, time
from portal_checkpoint import resumed
from portal_metrics import log
random.seed(7)
state = {"loss": 1.0}
pause = 0 if os.environ.get("PORTAL_ATTEMPT", "-4").endswith("-4") else 1
for step in resumed(range(180), state=state):
    state["loss"] += random.gauss(0, 1) / (1 + state["loss"] ** 2)
    time.sleep(pause)
log(loss=state["loss"])
print(state["loss"])
"""
SCRIPTS = {
    "training.py": TRAINING,
    "prepare.py": "print('x', end='', file=open('prepared', 'a'))",
    "report.py": "from portal_metrics import log\nlog(prepared=len(open('prepared').read()))",
}
SMALL = "--cpus 1 --memory 512M --time 0:01:00"


@pytest.fixture(scope="module")
def ada(demo: Any) -> Iterator[Person]:
    """Ada in a session, with a notebook whose cell of parameters is tagged, and with runs: a
    training, and the chain of "prepare" and "report"."""
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
        _begin(person)
        yield person
        terminal(person, "portal-run stop training; chmod $(cat story/mode) .; rm -rf story")
    nothing_left(demo, "ada")


def _begin(person: Person) -> None:
    """Start the training and the chain."""
    for name, text in SCRIPTS.items():
        model = {"type": "file", "format": "text", "content": text}
        assert person.session("PUT", f"api/contents/story/{name}", json=model).is_success
    start = f"portal-run story/training.py {SMALL} --resume 9"
    wait_until("the portal knows the session", lambda: "Results:" in terminal(person, start))
    chain = [f"portal-run story/{name}.py {SMALL}" for name in ("prepare", "report")]
    said = terminal(person, f"{chain[0]} && {chain[1]} --after prepare")
    assert "once all points of 'prepare' have succeeded" in said, said


def test_from_a_notebook_to_a_colleagues_repetition(demo: Any, ada: Person, page: Any) -> None:
    options = f"{SMALL} --at-once 4 --set lr=$(seq -s, 1 20)"
    said = terminal(ada, f"portal-run story/train.ipynb {options}")
    assert "Run 'train': 20 points" in said, said
    run = _opened(demo, page, "train")
    expect(run).to_contain_text("18 of 20 succeeded, 2 failed", timeout=LONG)

    page.get_by_label("State").select_option("failed")
    failed = page.locator("#list")
    expect(failed).to_contain_text("AssertionError: this rate diverges (cell 4 of 4)")
    expect(failed).to_contain_text("The point was stopped: the time limit of its job was reached")
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
    expect(run).to_contain_text("20 of 20 succeeded", timeout=LONG)
    again = terminal(ada, "cd story/runs/train; ls -d *-2")
    assert again.split() == ["0002-2", "0004-2"], "what had succeeded did not run again"

    best = page.locator("#best")
    expect(best).to_contain_text("Point 6 with loss 0")
    best.get_by_role("button").click()
    panel = page.get_by_role("region", name="Point 6", exact=True)
    expect(panel.get_by_role("table")).to_have_text("rateloss70")
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
    dialog.get_by_label("User name").fill("barbara")
    dialog.get_by_role("button", name="Share", exact=True).click()
    expect(page.get_by_role("button", name="Stop sharing with barbara")).to_be_visible()
    terminal(ada, "chmod a+x .; chmod -R a+rX story")
    _repeat(demo, colleague)
    context.close()


def _opened(demo: Any, page: Any, name: str) -> Any:
    """Open the page of a run of ada's from the list; return the part with its facts."""
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs")
    page.locator("#list").get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    return page.locator("#run")


def _repeat(demo: Any, page: Any) -> None:
    """Repeat the run as another user, from the list of what is shared with them."""
    page.goto(f"{demo.url}/services/portal/runs")
    page.locator("#shared").get_by_role("link", name="train", exact=True).click()
    page.get_by_role("button", name="Repeat exactly").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Repeat “train” as “train-2”?")
    dialog.get_by_role("button", name=re.compile("^Repeat")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("train-2", timeout=LONG)
    expect(page.locator("#run")).to_contain_text("20 of 20 succeeded", timeout=LONG)
    expect(page.locator("#best")).to_contain_text("Point 6 with loss 0")


def test_a_chain_is_repeated_each_night(demo: Any, ada: Person, page: Any) -> None:
    """The clock is not waited for: the time of the start is made to be now."""
    run = _opened(demo, page, "report")
    expect(run).to_contain_text("1 succeeded", timeout=LONG)
    expect(run.get_by_role("link", name="prepare", exact=True)).to_be_visible()
    best = page.locator("#best")
    expect(best).to_contain_text("Point 0 with prepared 1")
    page.get_by_role("button", name="More actions for report").click()
    page.get_by_role("button", name="Repeat on a schedule…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Time of day")).to_have_value("02:00")
    dialog.get_by_role("button", name="Repeat run").click()
    told = page.locator("#board-toasts")
    expect(told).to_contain_text(re.compile(r"Next start: (\d+ \w+, )?02:00"))

    page.goto(f"{demo.url}/services/portal/runs")
    row = page.locator("#schedules tbody tr")
    expect(row).to_contain_text("02:00 each day")
    expect(row).to_contain_text("chain: prepare → report")
    at = row.locator("[data-head='Next']")
    expect(at).to_have_text(re.compile(r"^(\d+ \w+, )?02:00$"))
    _make_due(demo, row.get_attribute("data-key"))
    last = row.locator("[data-head='Last'] a")
    expect(last).to_be_visible(timeout=LONG)
    expect(at).to_have_text(re.compile("02:00$"))
    last.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("^report-20"))
    expect(run.get_by_role("link", name=re.compile("^prepare-20"))).to_be_visible()
    expect(run).to_contain_text("1 succeeded", timeout=LONG)
    expect(best).to_contain_text("Point 0 with prepared 2")

    page.goto(f"{demo.url}/services/portal/runs")
    row.get_by_role("button", name="Delete…").click()
    dialog.get_by_role("button", name="Delete schedule").click()
    expect(page.locator("#schedules-part")).to_be_hidden()


def _make_due(demo: Any, schedule: str) -> None:
    """Let the next start of a schedule of ada's be now."""

    async def due(store: Store) -> None:
        kept = await store.run_schedules.get("ada", schedule)
        assert await store.run_schedules.change(kept, next_at=time.time())

    stored(demo, due)


def test_a_training_passes_three_time_limits(demo: Any, ada: Person, page: Any) -> None:
    run = _opened(demo, page, "training")
    expect(run).to_contain_text("points resume after it, at most 9 times")
    expect(run).to_contain_text("1 succeeded", timeout=LONG)
    expect(page.locator("#list")).to_contain_text("Resumed 3 times.")
    uninterrupted = float(terminal(ada, "cd story; python training.py | tail -1"))
    assert float(terminal(ada, "tail -1 story/runs/training/0000-4/output.log")) == uninterrupted
    best = page.locator("#best")
    expect(best).to_contain_text(f"Point 0 with loss {uninterrupted:.6g}")
    best.get_by_role("button").click()
    panel = page.get_by_role("region", name="Point 0", exact=True)
    expect(panel).to_contain_text("Attempt4")
