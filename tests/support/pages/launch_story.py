"""A launch as by a person in any browser: log in, choose an environment and GPUs, work in
JupyterLab, stop. It runs on the real demo; screenshots go to build/screenshots/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hub_client import Person, wait_until, without_session
from jobs import living_jobs
from lab_page import new_notebook, run_cell
from looks import take_picture
from menu_items import menu_item
from sign_in import send_form

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect


@pytest.fixture
def ada(demo: Any) -> Iterator[Person]:
    """Yield Ada, with no session before and after; the test itself uses the browser."""
    yield from without_session(Person(demo.url, "ada"))


def launch_a_container_with_two_gpus(demo: Any, page: Any, pictures: str) -> None:
    """Log in as ada, launch, run a cell, stop. ``pictures``: prefix of the screenshots' names."""
    page.goto(f"{demo.url}/")
    send_form(page, "ada")
    page.wait_for_url("**/hub/spawn*")
    assert living_jobs(demo, "ada") == []

    # Three clicks: the environment, the GPUs, Start.
    page.get_by_role("radio", name="JupyterLab").check(force=True)
    page.locator("label[for='launch-gpus-2']").click()
    if demo.words["simulated_gpus"]:
        page.locator("label", has_text="V100").click()
        expect(page.locator("#launch-gpu-type")).to_contain_text("simulated")
    expect(page.locator("#launch-summary")).to_contain_text("2")
    take_picture(page, f"{pictures}launch", full_page=True)
    page.get_by_role("button", name="Start", exact=True).click()

    page.wait_for_url(re.compile(r"/user/ada/lab"), timeout=120_000)
    page.wait_for_load_state("networkidle")  # Firefox reports scripts that a navigation cut off
    (job,) = living_jobs(demo, "ada")
    assert job.state == "RUNNING"
    assert job.name == "portal-jupyterlab"
    assert job.gres.endswith(":2")

    # A notebook with a cell, in a workspace of its own in which nothing else is open.
    new_notebook(page, f"{demo.url}/user/ada/lab/workspaces/test-launch")
    printed = run_cell(
        page,
        "import os, socket\n"
        "print('gpus', os.environ['CUDA_VISIBLE_DEVICES'])\n"
        "print('container', os.environ['APPTAINER_CONTAINER'])\n"
        "print('job', os.environ['PORTAL_JOB_ID'], os.environ['SLURMD_NODENAME'])\n"
        "print('host', socket.gethostname(), 'done')",
    )
    take_picture(page, f"{pictures}lab")
    values = dict(line.split(" ", 1) for line in printed.splitlines() if line.strip())
    assert len(values["gpus"].split(",")) == 2
    assert "jupyterlab" in values["container"]
    assert values["job"] == f"{job.id} {job.node}"

    # Stop it from the Sessions page; Slurm agrees. In another tab: Lab would hold up leaving
    # its own ("unsaved changes"), and sometimes the navigation is aborted.
    context = page.context
    page.close()
    page = context.new_page()
    page.goto(f"{demo.url}/services/portal/sessions")
    menu_item(page.locator("#living"), "Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    wait_until("squeue has no job of ada's", lambda: living_jobs(demo, "ada") == [])
    # The page follows by itself.
    expect(page.locator("#ended .entry").first).to_contain_text("You stopped the session")
