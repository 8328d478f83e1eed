"""The main job, as a person does it, and what may come between: a full cluster, a wrong password.

On the real demo: real LDAP, Slurm, Apptainer and Chromium.
"""

from __future__ import annotations

from typing import Any

import pytest
from hub_client import Person, wait_until
from jobs import living_jobs, no_free_t4
from lab_page import log_in
from launch_story import ada, launch_a_container_with_two_gpus
from looks import take_picture
from sign_in import send_form

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
__all__ = ["ada"]


def test_launch_a_container_with_two_gpus(demo: Any, ada: Person, page: Any) -> None:
    launch_a_container_with_two_gpus(demo, page, "")


def test_a_busy_cluster_shows_the_queue_and_can_be_left(demo: Any, ada: Person, page: Any) -> None:
    """All t4 are taken: the page says why it waits, and Cancel takes the job out of the queue."""
    if not demo.words["simulated_gpus"]:
        pytest.skip("needs the demo's simulated t4")
    with no_free_t4(demo, "--time=10"):
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
        take_picture(page, "estimate")
        page.get_by_role("button", name="v100: starts now").click()
        expect(starts).to_have_text("Starts now.")
        expect(page.locator("#launch-summary")).to_contain_text("V100")
        expect(page.locator("#launch-nearby")).to_be_hidden()
        page.locator("label", has_text="t4").click()
        expect(starts).to_contain_text("Starts in about")
        page.get_by_role("button", name="Start", exact=True).click()
        message = page.locator("#progress-message")
        expect(message).to_contain_text("1st in the queue")
        (job,) = living_jobs(demo, "ada")
        assert job.state == "PENDING"
        expect(page.locator("#progress-job")).to_contain_text(job.id)
        take_picture(page, "queue")
        page.get_by_role("button", name="Cancel").click()
        wait_until("the job is gone", lambda: living_jobs(demo, "ada") == [])


def test_wrong_password_is_told_on_the_form(demo: Any, page: Any) -> None:
    page.goto(f"{demo.url}/")
    send_form(page, "ada", "wrong")
    expect(page.get_by_role("alert")).to_contain_text("Invalid")
