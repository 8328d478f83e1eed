"""The panel of clusters in JupyterLab, on the real demo: a new cluster by a cell, scaled and
stopped without the notebook, and a kept one in the list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from api_client import Caller
from hub_client import Person, wait_until, with_session
from jobs import nothing_left, squeue
from lab_page import command, new_notebook, palette, toast, wait_for_kernel
from looks import take_picture, violations
from notebook_kernel import NotebookKernel
from sign_in import sign_in

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect

WHO = "student08"
STARTS = 90_000  # milliseconds: jobs start, and workers in them


@pytest.fixture(scope="module")
def owner(demo: Any) -> Iterator[Person]:
    """A student with a session on CPUs, and Dask."""
    someone = Person(demo.url, WHO)
    options = {"environment": "python-venv", "gpus": 0, "cpus": 1, "time": "0:40:00"}
    for _ in with_session(someone, options):
        wait_until(
            "kernels are offered",
            lambda: someone.session("GET", "portal/job-kernels").json().get("items"),
        )
        kernel = NotebookKernel.start(someone)
        kernel.install("distributed")
        kernel.leave()
        kernel.shut_down()
        yield someone
        caller = Caller(demo.url, WHO)
        for each in caller.get("replica-sets").json()["items"]:
            caller.delete(f"replica-sets/{each['id']}")
    nothing_left(demo, WHO)


@pytest.fixture
def lab(demo: Any, owner: Person, page: Any) -> Any:
    page.set_viewport_size({"width": 1400, "height": 850})
    sign_in(page, demo.url, WHO)
    return page


def jobs(demo: Any) -> int:
    """Return the number of live jobs of the student's clusters."""
    states = "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING"
    rows = squeue(demo, f"--user={WHO}", states, "--format=%k").splitlines()
    return sum(":dask" in row for row in rows)


def themes(page: Any) -> Iterator[str]:
    """Show the page in each theme of JupyterLab, the light one last."""
    for theme in ("Dark", "Light"):
        palette(page, f"Theme: JupyterLab {theme}")
        page.keyboard.press("Enter")
        body = page.locator("body")
        expect(body).to_have_attribute("data-jp-theme-light", str(theme == "Light").lower())
        yield theme.lower()


def made(demo: Any, lab: Any, *, keep: bool) -> None:
    """Make a cluster of one worker in a new notebook, with the dialog."""
    new_notebook(lab, f"{demo.url}/user/{WHO}/lab")
    wait_for_kernel(lab)
    lab.locator(".jp-Notebook-cell .cm-content").last.click()
    command(lab, "Portal: New cluster")
    dialog = lab.get_by_role("dialog")
    expect(dialog.get_by_label("Engine")).to_contain_text("Dask")
    expect(dialog).to_contain_text(re.compile(r"You can have \d+ in all clusters\."))
    dialog.get_by_label("Workers").fill("1")
    dialog.get_by_label("CPUs").fill("1")
    dialog.get_by_label("Memory").fill("400M")
    dialog.get_by_label(re.compile("^Time limit")).fill("0:10:00")
    kept = dialog.get_by_label("Keep it after this session")
    expect(kept).not_to_be_checked()
    if keep:
        kept.press("Space")
    assert violations(lab, ".jp-Dialog") == []
    take_picture(lab, "lab-cluster-dialog")
    dialog.get_by_role("button", name="Add to notebook").press("Enter")
    cell = lab.locator(".jp-Notebook-cell .cm-content", has_text="portal_cluster").first
    more = "keep=True, " if keep else ""
    expect(cell).to_contain_text(re.compile(rf'cluster = dask\(1, {more}.*memory="400M"'))
    expect(cell).to_contain_text("client = cluster.client()")


def test_a_cluster_is_made_scaled_and_stopped(demo: Any, owner: Person, lab: Any) -> None:
    made(demo, lab, keep=False)
    command(lab, "Portal: Clusters")
    panel = lab.get_by_role("region", name="Clusters")
    entry = panel.locator("[data-cluster]")
    expect(entry).to_contain_text("1 of 1 worker", timeout=STARTS)
    number = entry.get_by_role("spinbutton", name=re.compile("^Workers of Dask cluster"))
    number.fill("2")
    number.press("Enter")
    expect(entry).to_contain_text("2 of 2 workers", timeout=STARTS)
    dashboard = entry.get_by_role("link", name=re.compile("^Dashboard of"))
    address = dashboard.get_attribute("href")
    assert re.search(rf"/user/{WHO}/portal/clusters/[0-9a-f]{{16}}/status$", address)
    for theme in themes(lab):
        assert violations(lab, "#portal-clusters-panel") == [], theme
        take_picture(lab, f"lab-clusters-{theme}")
    number.fill("99")
    entry.get_by_role("button", name=re.compile("^Scale")).click()
    expect(toast(lab, "at most, not 99.")).to_be_visible()
    entry.get_by_role("button", name=re.compile("^Stop Dask")).press("Enter")
    lab.get_by_role("dialog").get_by_role("button", name="Stop").press("Enter")
    expect(panel).to_contain_text("No cluster.", timeout=STARTS)
    wait_until("its workers have ended", lambda: not jobs(demo), 60)


def test_a_kept_cluster_is_listed_and_stopped(demo: Any, owner: Person, lab: Any) -> None:
    made(demo, lab, keep=True)
    command(lab, "Portal: Clusters")
    entry = lab.locator("#portal-clusters-panel [data-cluster]")
    expect(entry).to_contain_text("1 of 1 worker, kept", timeout=STARTS)
    name = entry.get_attribute("data-cluster")
    expect(entry).to_contain_text(f'Connect: dask("{name[:6]}").')
    expect(entry).to_contain_text("it has no workers after 30 min.")
    entry.get_by_role("spinbutton").fill("0")
    entry.get_by_role("button", name=re.compile("^Scale")).click()
    expect(entry).to_contain_text("0 of 0 workers, kept", timeout=STARTS)
    with lab.context.expect_page() as opened:
        entry.get_by_role("link", name=re.compile("^Dashboard of")).click()
    dashboard = opened.value
    expect(dashboard).to_have_url(re.compile(f"/portal/clusters/{name}/status$"))

    def shown() -> bool:
        """Return True once the page is there; "Try again" is meant so."""
        dashboard.wait_for_load_state()
        if "does not answer. Try again." not in dashboard.content():
            return True
        dashboard.reload()
        return False

    wait_until("the scheduler's pages answer", shown, every=2)
    expect(dashboard.locator("body")).to_contain_text("Dask")
    dashboard.close()
    entry.get_by_role("button", name=re.compile("^Stop Dask")).click()
    lab.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(entry).to_have_count(0, timeout=STARTS)
    wait_until("its scheduler has ended", lambda: not jobs(demo), 60)
