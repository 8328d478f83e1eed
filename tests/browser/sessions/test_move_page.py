"""The form "Change resources" of a session's page, in a real browser on the real demo."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hub_client import Person, wait_until
from jobs import living_jobs, no_free_t4
from looks import check
from menu_items import menu_item
from sign_in import sign_in

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect


@pytest.fixture
def session(demo: Any) -> Iterator[tuple[str, str]]:
    """Student07's session on CPUs: its id and its job's."""
    student = Person(demo.url, "student07")
    student.stop()
    answer = student.launch({"environment": "python-venv", "cpus": 1, "memory": "1G"})
    assert answer.status_code in (201, 202), answer.text
    student.wait_ready()
    (job,) = living_jobs(demo, "student07")

    def known() -> Any:
        answer = httpx.get(
            f"{demo.url}/services/portal/api/v1/sessions?state=running",
            headers={"Authorization": f"token {student.token}"},
            timeout=120,
        )
        return answer.status_code == 200 and answer.json()["items"]

    (one,) = wait_until("the portal knows the session", known)
    yield one["id"], job.id
    student.stop()


@pytest.fixture
def full(demo: Any) -> Iterator[None]:
    """All t4 are taken by somebody else."""
    with no_free_t4(demo):
        yield


def test_a_change_that_waits_is_shown_and_called_off(
    demo: Any, page: Any, session: tuple[str, str], full: None
) -> None:
    id_, job_id = session
    sign_in(page, demo.url, "student07")
    page.goto(f"{demo.url}/services/portal/sessions/{id_}")
    menu_item(page.locator("#session"), "Change resources…").click()
    dialog = page.get_by_role("dialog")
    # It begins with what the session has, and says what is lost.
    expect(dialog.get_by_label("CPUs")).to_have_value("1")
    expect(dialog.get_by_label("Memory")).to_have_value("1G")
    expect(dialog).to_contain_text("Kernels end and their variables are lost")
    expect(dialog).to_contain_text("No kernel is running code.")
    check(page, "change-resources")
    dialog.get_by_label("GPUs", exact=True).fill("99")
    dialog.get_by_role("button", name="Queue new job").click()
    expect(dialog.get_by_role("alert")).to_contain_text("at most")
    dialog.get_by_label("GPUs", exact=True).fill("2")
    dialog.get_by_label("GPU type").select_option("t4")
    # What starts earlier is offered, and pressing it fills it in.
    dialog.get_by_role("status").get_by_role("button", name=re.compile("v100")).click(
        timeout=60_000
    )
    expect(dialog.get_by_label("GPU type")).to_have_value("v100")
    dialog.get_by_label("GPU type").select_option("t4")
    dialog.get_by_role("button", name="Queue new job").click()
    expect(dialog).to_have_count(0)

    told = page.locator("#move")
    expect(told).to_contain_text("Resources are being changed")
    expect(told).to_contain_text("The session continues.")
    check(page, "resources-being-changed")
    told.get_by_role("button", name="Cancel change").click()
    expect(told).to_contain_text("You cancelled the change of resources")
    wait_until(
        "only the session is left",
        lambda: [row.id for row in living_jobs(demo, "student07")] == [job_id],
    )
    expect(menu_item(page.locator("#session"), "Change resources…")).to_be_visible()
