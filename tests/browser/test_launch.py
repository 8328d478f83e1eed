"""The main job, as a person does it: log in, pick an environment and GPUs, work in JupyterLab.

On the real demo: real LDAP, Slurm, Apptainer and Chromium. Pictures go to build/screenshots/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_client import Person, wait_until
from jobs import job_state, living_jobs
from lab_page import log_in, new_notebook, run_cell

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
PICTURES = Path(__file__).parents[2] / "build" / "screenshots"


@pytest.fixture
def ada(demo: Any) -> Iterator[Person]:
    """Ada, with no session before and after; the test itself uses the browser."""
    someone = Person(demo.url, "ada")
    someone.stop()
    yield someone
    someone.stop()


def test_launch_a_container_with_two_gpus(demo: Any, ada: Person, page: Any) -> None:
    log_in(page, demo)
    page.wait_for_url("**/hub/spawn*")
    assert living_jobs(demo, "ada") == []

    # Three clicks: the environment, the GPUs, Start.
    page.get_by_role("radio", name="JupyterLab").check(force=True)
    page.locator("label[for='launch-gpus-2']").click()
    if demo.words["simulated_gpus"]:
        page.locator("label", has_text="V100").click()
        expect(page.locator("#launch-gpu-type")).to_contain_text("simulated")
    expect(page.locator("#launch-summary")).to_contain_text("2")
    page.screenshot(path=PICTURES / "launch.png", full_page=True)
    page.get_by_role("button", name="Start", exact=True).click()

    page.wait_for_url(re.compile(r"/user/ada/lab"), timeout=120_000)
    (job,) = living_jobs(demo, "ada")
    assert job.state == "RUNNING"
    assert job.name == "portal-jupyterlab"
    assert job.gres.endswith(":2")

    # A notebook, and a cell in it; in a workspace of its own, which nobody left things open in.
    new_notebook(page, f"{demo.url}/user/ada/lab/workspaces/test-launch")
    printed = run_cell(
        page,
        "import os, socket\n"
        "print('gpus', os.environ['CUDA_VISIBLE_DEVICES'])\n"
        "print('container', os.environ['APPTAINER_CONTAINER'])\n"
        "print('job', os.environ['PORTAL_JOB_ID'], os.environ['SLURMD_NODENAME'])\n"
        "print('host', socket.gethostname(), 'done')",
    )
    page.screenshot(path=PICTURES / "lab.png")
    words = dict(line.split(" ", 1) for line in printed.splitlines() if line.strip())
    assert len(words["gpus"].split(",")) == 2
    assert "jupyterlab" in words["container"]
    assert words["job"] == f"{job.id} {job.node}"

    # Stop it from the home page; Slurm agrees. In another tab: Lab would hold up leaving its own
    # ("unsaved changes"), and sometimes the navigation is aborted.
    context = page.context
    page.close()
    page = context.new_page()
    page.goto(f"{demo.url}/hub/home")
    page.get_by_role("button", name=re.compile("Stop")).first.click()
    dialog = page.get_by_role("dialog")
    if dialog.count() and dialog.is_visible():
        dialog.get_by_role("button", name=re.compile("Stop")).click()
    wait_until("squeue has no job of ada's", lambda: living_jobs(demo, "ada") == [])
    # The page follows by itself.
    expect(page.locator(".portal-page").first).to_contain_text("You stopped it")


def test_a_busy_cluster_shows_the_queue_and_can_be_left(demo: Any, ada: Person, page: Any) -> None:
    """All t4 are taken: the page says why it waits, and Cancel takes the job out of the queue."""
    if not demo.words["simulated_gpus"]:
        pytest.skip("needs the demo's simulated t4")
    blockers = [
        demo.run(
            ["sbatch", "--parsable", "--gres=gpu:t4:2", "--time=10", "--wrap=sleep 600"],
            user=demo.user("barbara"),
        ).stdout.strip()
        for _ in range(2)
    ]
    try:
        wait_until("both run", lambda: all(job_state(demo, j) == "RUNNING" for j in blockers))
        log_in(page, demo)
        page.wait_for_url("**/hub/spawn*")

        def nothing_is_free() -> bool:
            page.goto(f"{demo.url}/hub/spawn#environment=python-venv&gpus=1&gpu_type=t4")
            page.reload()
            return "0 of 4 free" in page.locator("#launch-gpu-type").inner_text()

        wait_until("the page knows that all t4 are taken", nothing_is_free, every=2)
        # When it would start, and a choice that starts earlier fills the form in.
        starts = page.locator("#launch-starts")
        expect(starts).to_contain_text("Starts in about")
        page.screenshot(path=PICTURES / "estimate.png")
        page.get_by_role("button", name="v100: starts now").click()
        expect(starts).to_have_text("Starts now.")
        expect(page.locator("#launch-summary")).to_contain_text("v100")
        expect(page.locator("#launch-nearby")).to_be_hidden()
        page.locator("label", has_text="t4").click()
        expect(starts).to_contain_text("Starts in about")
        page.get_by_role("button", name="Start", exact=True).click()
        message = page.locator("#progress-message")
        expect(message).to_contain_text("1st in the queue")
        (job,) = living_jobs(demo, "ada")
        assert job.state == "PENDING"
        expect(page.locator("#progress-job")).to_contain_text(job.id)
        page.screenshot(path=PICTURES / "queue.png")
        page.get_by_role("button", name="Cancel").click()
        wait_until("the job is gone", lambda: living_jobs(demo, "ada") == [])
    finally:
        demo.run(["scancel", *blockers], user=demo.user("barbara"), check=False)


def test_wrong_password_is_told_on_the_form(demo: Any, page: Any) -> None:
    page.goto(f"{demo.url}/")
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password", exact=True).fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("Invalid")
