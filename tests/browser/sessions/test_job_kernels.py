"""Kernels in jobs of their own, in JupyterLab of a session without GPUs, on the real demo."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hub_client import Person, wait_until, with_session
from jobs import living_jobs, no_free_t4, nothing_left, only_job
from kernel_page import CHOOSE, WHERE, card, choose, item, where
from lab_page import command, palette, toast
from looks import STILL, take_picture, violations
from sign_in import sign_in

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect

WHO = "student07"
STARTS = 90_000  # milliseconds: a job starts, and a kernel in it
OWN = re.compile(r"^Python 3 \(ipykernel\)$")
USUAL = re.compile(r"^Python \u00b7 1 \u00d7 V100 \u00b7 JupyterLab$")
TIME = "Time limit, from the start of the job"


@pytest.fixture(scope="module")
def owner(demo: Any) -> Iterator[Person]:
    """Student07 with a session on CPUs, whose server knows what kernels there are."""
    someone = Person(demo.url, WHO)
    options = {
        "environment": "python-venv",
        "gpus": 0,
        "cpus": 1,
        "memory": "2G",
        "time": "0:40:00",
    }
    for _ in with_session(someone, options):
        wait_until(
            "kernels are offered",
            lambda: someone.session("GET", "portal/job-kernels").json().get("items"),
        )
        yield someone
    nothing_left(demo, WHO)


@pytest.fixture
def job(demo: Any, owner: Person) -> Iterator[str]:
    """The job of the session; after the test it is the only one again."""
    id_ = only_job(demo, WHO)
    yield id_
    for session in owner.session("GET", "api/sessions").json():
        owner.session("DELETE", f"api/sessions/{session['id']}")
    wait_until("only the session is left", lambda: kernel_jobs(demo, id_) == [])
    for file in owner.session("GET", "api/contents/").json()["content"]:
        if file["path"].endswith(".ipynb"):
            owner.session("DELETE", f"api/contents/{file['path']}")


@pytest.fixture
def lab(demo: Any, owner: Person, job: str, page: Any) -> Any:
    """JupyterLab with its launcher."""
    page.set_viewport_size({"width": 1400, "height": 850})
    sign_in(page, demo.url, WHO)
    page.goto(f"{demo.url}/user/{WHO}/lab?reset")
    expect(card(page, CHOOSE)).to_be_visible(timeout=STARTS)
    return page


def kernel_jobs(demo: Any, session: str) -> list[Any]:
    return [row for row in living_jobs(demo, WHO) if row.id != session]


def themes(page: Any) -> Iterator[str]:
    """Show the page in each theme of JupyterLab, the light one last."""
    for theme in ("Dark", "Light"):
        palette(page, f"Theme: JupyterLab {theme}")
        page.keyboard.press("Enter")
        body = page.locator("body")
        expect(body).to_have_attribute("data-jp-theme-light", str(theme == "Light").lower())
        yield theme.lower()


def look(page: Any, name: str, place: str = "") -> None:
    """Take a picture; fail if axe finds anything in ``place``."""
    page.evaluate(STILL)
    take_picture(page, f"{name}")
    findings = violations(page, place) if place else []
    assert not findings, "\n".join(findings)


def test_the_launcher_offers_them(demo: Any, lab: Any, job: str) -> None:
    expect(card(lab, USUAL)).to_be_visible()
    look(lab, "job-kernels-launcher")
    card(lab, USUAL).click()
    expect(item(lab).get_by_role("status")).to_have_text(
        re.compile(r"^On gpu\d+ until (\w+ \d+, )?\d\d:\d\d"), timeout=STARTS
    )
    found = where(lab)
    (row,) = kernel_jobs(demo, job)
    assert (found["PORTAL_JOB_ID"], found["SLURMD_NODENAME"]) == (row.id, row.node)
    assert found["CUDA_VISIBLE_DEVICES"] in ("0", "1") and "v100" in row.gres
    for theme in themes(lab):
        look(lab, f"job-kernel-runs-{theme}", ".portal-JobKernel")


def test_the_dialog(demo: Any, lab: Any, job: str) -> None:
    card(lab, CHOOSE).click()
    dialog = lab.get_by_role("dialog")
    expect(dialog.get_by_label("Kernel", exact=True)).to_be_focused()
    expect(dialog.get_by_label("Kernel", exact=True).locator("option:checked")).to_have_text(
        "Python 3 (ipykernel) \u00b7 JupyterLab"
    )
    expect(dialog.get_by_label("GPUs", exact=True)).to_have_value("1")
    left = {
        field: dialog.locator(field).bounding_box()["x"]
        for field in ("#portal-job-kernel", "#move-gpus", "#move-time")
    }
    assert max(left.values()) - min(left.values()) < 4, "the fields are in one column"
    simulated = dialog.get_by_text("The GPUs of this cluster are simulated.")
    expect(simulated).to_be_visible(visible=demo.words["simulated_gpus"])
    expect(dialog.get_by_role("status")).to_contain_text("Starts now.")
    expect(dialog).not_to_contain_text("variables are lost")
    look(lab, "job-kernel-dialog-light", ".jp-Dialog-content")
    dialog.get_by_role("button", name="Cancel").click()
    next(themes(lab))
    card(lab, CHOOSE).click()
    expect(dialog.get_by_role("status")).to_contain_text("Starts now.")
    look(lab, "job-kernel-dialog-dark", ".jp-Dialog-content")
    # What the portal refuses is said here, and nothing is started.
    choose(lab, GPUs="99")
    expect(dialog.get_by_role("alert")).to_contain_text("at most")
    expect(dialog.get_by_label("GPUs", exact=True)).to_have_value("99")
    choose(lab, GPUs="2", GPU_type="v100", CPUs="1", Memory="1G", **{TIME: "0:20:00"})
    expect(dialog).to_have_count(0)
    expect(item(lab).get_by_role("status")).to_contain_text("On gpu", timeout=STARTS)
    # The toolbar of this window has room for it.
    expect(lab.locator(".jp-NotebookPanel-toolbar > .jp-KernelName")).to_contain_text(
        "2 \u00d7 V100, 1 CPU, 1G, 20 min"
    )
    found = where(lab)
    (row,) = kernel_jobs(demo, job)
    assert found["PORTAL_JOB_ID"] == row.id
    assert found["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_a_notebook_gets_another_kernel(demo: Any, lab: Any, job: str) -> None:
    """From its toolbar; then back to the session's own, and no job is left."""
    card(lab, OWN).click()
    expect(item(lab).get_by_role("status")).to_have_text("")
    assert where(lab)["PORTAL_JOB_ID"] == job
    item(lab).get_by_role("button", name=CHOOSE).click()
    choose(lab, GPU_type="v100")
    expect(item(lab).get_by_role("status")).to_contain_text("On gpu", timeout=STARTS)
    lab.locator(".jp-NotebookPanel-toolbar .jp-KernelName").click()
    dialog = lab.get_by_role("dialog")
    dialog.get_by_role("combobox").select_option(label="Python 3 (ipykernel)")
    dialog.get_by_role("button", name="Select").click()
    wait_until("its job has ended", lambda: kernel_jobs(demo, job) == [])
    expect(item(lab).get_by_role("status")).to_have_text("")
    # The menu and the palette have the command too.
    lab.get_by_role("menuitem", name="Kernel", exact=True).click()
    expect(lab.get_by_role("menuitem", name=CHOOSE)).to_be_visible()
    lab.keyboard.press("Escape")
    command(lab, f"Portal: {CHOOSE}")
    expect(lab.get_by_role("dialog")).to_contain_text("Kernel with GPUs")
    lab.get_by_role("button", name="Cancel").click()


def test_a_kernel_that_waits_keeps_its_cells(demo: Any, lab: Any, job: str) -> None:
    with no_free_t4(demo) as give_back:
        card(lab, CHOOSE).click()
        choose(lab, GPU_type="t4")
        state = item(lab).get_by_role("status")
        expect(state).to_have_text(re.compile(r"^Waiting: .*(in the queue|expected \d)"))
        for theme in themes(lab):
            look(lab, f"job-kernel-waits-{theme}", ".portal-JobKernel")
        cell = lab.locator(".jp-Notebook-cell .cm-content").last
        cell.click()
        cell.fill(WHERE)
        lab.keyboard.press("Shift+Enter")
        expect(lab.locator(".jp-InputPrompt").first).to_have_text("[*]:")
        give_back()
        output = lab.locator(".jp-OutputArea-output pre").first
        expect(output).to_contain_text("done", timeout=STARTS)
        expect(state).to_contain_text("On gpu")
        (row,) = kernel_jobs(demo, job)
        assert f'"PORTAL_JOB_ID": "{row.id}"' in output.inner_text() and "t4" in row.gres


def test_a_kernel_that_waits_is_cancelled(demo: Any, owner: Person, lab: Any, job: str) -> None:
    """With the keyboard."""
    with no_free_t4(demo):
        card(lab, CHOOSE).click()
        choose(lab, GPU_type="t4")
        expect(item(lab).get_by_role("status")).to_contain_text("Waiting: ")
        wait_until("its job waits", lambda: kernel_jobs(demo, job))
        cancel = item(lab).get_by_role("button", name="Cancel")
        lab.locator(".jp-NotebookPanel-toolbar jp-button").first.focus()
        for _ in range(20):  # a toolbar is one stop of the Tab key, with arrows between its items
            if cancel.evaluate("button => button === document.activeElement"):
                break
            lab.keyboard.press("ArrowRight")
        expect(cancel).to_be_focused()
        lab.keyboard.press("Enter")
        wait_until("no job is left", lambda: kernel_jobs(demo, job) == [])
        expect(item(lab).get_by_role("status")).to_have_text("")
        expect(lab.locator(".jp-NotebookPanel-toolbar .jp-KernelName")).to_have_text("No Kernel")
        assert owner.session("GET", "api/kernels").json() == []


def test_an_ended_kernel_says_why(demo: Any, lab: Any, job: str) -> None:
    card(lab, USUAL).click()
    state = item(lab).get_by_role("status")
    expect(state).to_contain_text("On gpu", timeout=STARTS)
    (row,) = kernel_jobs(demo, job)
    demo.run(["scancel", row.id], user=demo.user(WHO))
    expect(state).to_have_text(re.compile(r"^Ended: .*\.$"), timeout=STARTS)
    for theme in themes(lab):
        look(lab, f"job-kernel-ended-{theme}", ".portal-JobKernel")


def test_a_console_says_it_too(lab: Any) -> None:
    cards = lab.locator(".jp-LauncherCard[data-category='Console']")
    cards.filter(has=lab.locator(".jp-LauncherCard-label", has_text=USUAL)).click()
    expect(item(lab).get_by_role("status")).to_contain_text("On gpu", timeout=STARTS)
    expect(item(lab).get_by_role("status")).to_be_visible()


def test_a_notebook_is_run_as_a_job(demo: Any, owner: Person, lab: Any, job: str) -> None:
    """From the button in its toolbar to its points, and from the portal's page: with its own form,
    and to the dialog, whose other ways test_run_as_job.py has."""
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [
        {**cell, "source": "rate = 0.1", "metadata": {"tags": ["parameters"]}},
        {**cell, "source": "from portal_metrics import log\nlog(double=2 * rate)"},
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 4}
    model = {"type": "notebook", "format": "json", "content": notebook}
    assert owner.session("PUT", "api/contents/rates.ipynb", json=model).is_success
    lab.goto(f"{demo.url}/user/{WHO}/lab/tree/rates.ipynb?reset")
    lab.get_by_role("button", name="Run as job").click(timeout=STARTS)
    dialog = lab.get_by_role("dialog")
    dialog.get_by_label("rate", exact=True).fill("1, 2.5")
    dialog.get_by_text("More: ").click()
    for label, value in {"GPUs": "0", "CPUs": "1", "Memory": "512M", TIME: "0:10:00"}.items():
        dialog.get_by_label(label, exact=True).fill(value)
    expect(dialog.get_by_text("2 points, at most 2 at once")).to_be_visible()
    expect(dialog.get_by_text("First point: ")).to_be_visible()
    look(lab, "run-as-job-demo", ".jp-Dialog-content")
    dialog.get_by_role("button", name="Start run").click()
    told = toast(lab, "Run “rates” has started: 2 points")
    expect(told).to_be_visible(timeout=STARTS)
    with lab.context.expect_page() as opened:
        told.get_by_role("button", name="Show").click()
    shown = opened.value
    expect(shown.get_by_role("heading", level=1)).to_have_text("rates")
    expect(shown.locator("#run")).to_contain_text("2 succeeded", timeout=2 * STARTS)
    expect(shown.locator("#list tr[data-key='1']")).to_contain_text("5")
    shown.goto(f"{demo.url}/services/portal/runs")
    shown.get_by_role("link", name="New run").click()
    shown.get_by_role("button", name="Browse…").click(timeout=STARTS)
    shown.get_by_role("list", name="Files in ~").get_by_text("rates.ipynb").click()
    shown.get_by_label("rate", exact=True).fill("high")
    expect(shown.get_by_role("alert")).to_contain_text(["'rate' is a number in the notebook"])
    shown.get_by_label("rate", exact=True).fill("3, 4, 5")
    expect(shown.locator("#run-points")).to_have_text("3 points, at most 3 at once")
    shown.get_by_text("More: ").click()
    for label, value in {"GPUs": "0", "CPUs": "1", "Memory": "512M", TIME: "0:10:00"}.items():
        shown.get_by_label(label, exact=True).fill(value)
    expect(shown.get_by_text("First point: ")).to_be_visible()
    take_picture(shown, "new-run-demo", full_page=True)
    shown.get_by_role("button", name="Start run").click()
    expect(shown.get_by_role("heading", level=1)).to_have_text("rates-2", timeout=STARTS)
    expect(shown.locator("#run")).to_contain_text("3 succeeded", timeout=2 * STARTS)
    shown.goto(f"{demo.url}/services/portal/runs")
    best = shown.locator("#list tbody tr", has_text="rates-2")
    expect(best).to_contain_text("~/rates.ipynb")
    expect(best).to_contain_text("double")
    shown.get_by_role("link", name="New run").click()
    shown.get_by_role("link", name="Choose in JupyterLab instead").click(timeout=STARTS)
    expect(shown.get_by_role("dialog")).to_contain_text(
        "Choose a notebook or script for a new run", timeout=STARTS
    )
    assert f"/user/{WHO}/lab" in shown.url
    shown.close()
