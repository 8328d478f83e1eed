"""The end of a session in JupyterLab, on the real demo: from the panel, by an admin with a reason,
and what the session's address shows afterwards. With it: the Hub's commands in the portal's words,
and the prompt of a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hub_client import Person, wait_until, with_session
from jobs import living_jobs, only_job
from lab_page import palette
from looks import check, take_picture, violations
from outages import without
from sign_in import sign_in
from terminal import terminal
from web_service import service_token

from portal.models.session.stop_reason import REASON_HEADER, StopCode, StopReason

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect

WHO = "student05"
CPUS = {"environment": "python-venv", "gpus": 0, "cpus": 1, "memory": "2G", "time": "0:40:00"}
ENDS = 90_000  # milliseconds until a job has ended


@pytest.fixture
def owner(demo: Any, request: Any) -> Iterator[Person]:
    someone = Person(demo.url, WHO)
    for _ in with_session(someone, {**CPUS, **getattr(request, "param", {})}):
        wait_until(
            "the portal tells the session how it stands",
            lambda: someone.session("GET", "portal/situation").json()["situation"],
        )
        yield someone


@pytest.fixture
def lab(demo: Any, owner: Person, page: Any) -> Iterator[Any]:
    """JupyterLab with its launcher, in a page that knows the session."""
    page.set_viewport_size({"width": 1280, "height": 850})
    sign_in(page, demo.url, WHO)
    page.goto(f"{demo.url}/user/{WHO}/lab?reset")
    expect(page.locator(".portal-StatusItem button")).to_contain_text("left")
    yield page
    # JupyterLab stores its layout, and loads what shows notifications, at an address that is the
    # Hub's by then, or nobody's yet, and does not catch that.
    away = ("is only available at", "Invalid response: 503 Service Unavailable", "Loading chunk")
    page.errors[:] = [error for error in page.errors if not any(text in error for text in away)]


def ended(page: Any, words: str) -> Any:
    """The dialog that says why the session has ended."""
    dialog = page.get_by_role("dialog").filter(has_text="This session has ended")
    expect(dialog).to_contain_text(re.compile(words), timeout=ENDS)
    return dialog


def test_it_is_stopped_from_the_panel(demo: Any, owner: Person, lab: Any) -> None:
    lab.locator(".jp-LauncherCard", has_text="Text File").click()
    lab.locator(".jp-FileEditor .cm-content").fill("not saved yet")
    lab.locator(".portal-StatusItem button").click()
    panel = lab.locator("#portal-session-panel")
    panel.get_by_role("button", name="Stop…").click()
    question = lab.get_by_role("dialog")
    question.get_by_role("button", name="Keep running").click()
    expect(question).to_have_count(0)
    panel.get_by_role("button", name="Stop…").click()
    question.get_by_role("button", name="Stop", exact=True).click()
    dialog = ended(lab, r"You stopped this session at \d\d:\d\d\.")
    expect(lab.locator(".lm-TabBar-tab.jp-mod-dirty")).to_have_count(0)  # it was saved before
    take_picture(lab, "lab-ended")
    assert violations(lab, ".jp-Dialog-content") == []
    with lab.context.expect_page() as opened:
        dialog.get_by_role("button", name="Why").click()
    expect(opened.value.get_by_role("main")).to_contain_text("You stopped the session.")
    # It is said once, and the tab keeps what is open.
    lab.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    lab.wait_for_timeout(3000)
    expect(lab.get_by_role("dialog")).to_have_count(0)
    # The session's address shows the same.
    page = opened.value
    page.goto(f"{demo.url}/user/{WHO}/lab")
    expect(page.locator("#session-reason")).to_have_text(
        re.compile(r"^You stopped this session at \d\d:\d\d\.$")
    )
    check(page, "ended-by-owner")
    page.get_by_role("link", name="Why").click()
    expect(page.get_by_role("main")).to_contain_text("You stopped the session.")
    page.goto(f"{demo.url}/user/{WHO}/lab")
    page.get_by_role("link", name="Launch again").click()
    page.wait_for_url("**/hub/spawn/**")


def test_an_admins_reason_is_shown(demo: Any, owner: Person, lab: Any) -> None:
    admin = Person(demo.url, "grace")
    admin.api("GET", "/user")
    api = f"{demo.url}/services/portal/api/v1"
    answer = httpx.post(
        f"{api}/jobs/{only_job(demo, WHO)}/cancel",
        headers={"Authorization": f"token {admin.token}"},
        json={"reason": "cpu01 is repaired"},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    words = r"An administrator \(grace\) stopped this session at \d\d:\d\d: cpu01 is repaired"
    dialog = ended(lab, words)
    with lab.context.expect_page() as opened:
        dialog.get_by_role("button", name="Launch again").click()
    opened.value.wait_for_url("**/hub/spawn/**")


def cancel(demo: Any, owner: Person) -> None:
    demo.run(["scancel", only_job(demo, WHO)], user=demo.user(WHO))


def reach_the_time_limit(demo: Any, owner: Person) -> None:
    demo.run(["scontrol", "update", f"JobId={only_job(demo, WHO)}", "TimeLimit=1"])
    wait_until("Slurm has ended it", lambda: not living_jobs(demo, WHO), timeout=240)


def use_too_much_memory(demo: Any, owner: Person) -> None:
    # In the foreground: Slurm's linuxproc tracking loses what outlives its parent.
    hog = "python3 -c 'import time; x = bytes([1]) * 10**9; time.sleep(99)'"
    terminal(owner, hog, wait=False)


def be_idle(demo: Any, owner: Person) -> None:
    """The service stops it as its rule for idle GPUs does (tests/hub/sessions/test_idle.py)."""
    words = "The session's GPUs were idle for 2 hours, and this site stops such sessions."
    reason = StopReason(code=StopCode.IDLE, words=words)
    headers = {"Authorization": f"token {service_token(demo)}", REASON_HEADER: reason.header()}
    answer = httpx.delete(f"{demo.url}/hub/api/users/{WHO}/server", headers=headers, timeout=60)
    assert answer.status_code in (202, 204), answer.text


def lose_the_node(demo: Any, owner: Person) -> None:
    node = living_jobs(demo, WHO)[0].node
    demo.run(["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test"])
    try:
        wait_until("Slurm has ended it", lambda: not living_jobs(demo, WHO))
    finally:
        # slurmd has brought it back by itself where it was quick (ReturnToService).
        demo.run(["scontrol", "update", f"NodeName={node}", "State=RESUME"], check=False)


ENDINGS = [
    (cancel, {}, r"The job was cancelled in Slurm \(scancel\) by you\.$", "Cancelled in Slurm"),
    (
        reach_the_time_limit,
        {"partition": "gpu"},
        r"The session reached its time limit of 1 min\. To continue, launch with a longer time ",
        "Time limit",
    ),
    (
        use_too_much_memory,
        {"memory": "400M"},
        r"The session used more memory than requested and was killed\. Requested: 400 MB\.",
        "Out of memory",
    ),
    (be_idle, {}, r"The session's GPUs were idle for 2 hours, and this site stops such", "Idle"),
    (
        lose_the_node,
        {"partition": "cpu"},
        r"The node failed on cpu0\d\. Your files are safe: launch again\.$",
        "Node failure",
    ),
]


@pytest.mark.parametrize(
    ("end", "owner", "words", "title"),
    ENDINGS,
    indirect=["owner"],
    ids=[end.__name__ for end, *_ in ENDINGS],
)
def test_why_it_has_ended_is_shown(
    demo: Any, owner: Person, lab: Any, end: Any, words: str, title: str
) -> None:
    end(demo, owner)
    dated = rf"^Ended at \d\d:\d\d\. {words}"
    dialog = ended(lab, rf"Ended at \d\d:\d\d\. {words.rstrip('$')}")
    assert dialog.get_by_role("button").all_inner_texts() == ["Dismiss", "Why", "Launch again"]
    expect(lab.locator(".portal-StatusItem button")).to_have_text("Session ended")
    expect(lab.locator(".Toastify__toast", has_text="This session ends in")).to_have_count(0)
    take_picture(lab, f"lab-ended-{end.__name__}")
    with lab.context.expect_page() as opened:
        dialog.get_by_role("button", name="Why").click()
    page = opened.value
    expect(page.get_by_role("main")).to_contain_text(title)
    expect(page.get_by_role("main")).to_contain_text(re.compile(words.rstrip("$")))
    page.goto(f"{demo.url}/user/{WHO}/lab")
    expect(page.locator("#session-reason")).to_have_text(re.compile(dated))


def test_a_restart_of_the_hub_hides_no_end(demo: Any, owner: Person, lab: Any) -> None:
    """The Hub is killed, and the session ends meanwhile: the page says why, once it is known."""
    with without(demo, "hub", "kill"):
        cancel(demo, owner)
        wait_until("it has ended", lambda: not living_jobs(demo, WHO))
        lab.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        status = lab.locator(".portal-StatusItem button")
        expect(status).to_contain_text("Session does not answer", timeout=60_000)
        expect(lab.get_by_role("dialog")).to_have_count(0)
    # Its requests have become rare by now; whoever looks at the page causes one.
    lab.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    ended(lab, r"The job was cancelled in Slurm \(scancel\) by you\.")
    expect(status).to_have_text("Session ended")
    expect(lab.locator(".Toastify__toast", has_text="does not answer")).to_have_count(0)


def test_the_hubs_commands_are_the_portals(demo: Any, lab: Any) -> None:
    lab.get_by_role("menuitem", name="File", exact=True).click()
    items = lab.locator(".lm-Menu").get_by_role("menuitem")
    expect(items.filter(has_text=re.compile("^Log Out$"))).to_have_count(1)
    expect(items.filter(has_text="Hub Control Panel")).to_have_count(0)
    take_picture(lab, "lab-file-menu")
    with lab.context.expect_page() as opened:
        items.filter(has_text=re.compile("^Portal$")).click()
    opened.value.wait_for_url(re.compile(r"/hub/home|/services/portal/"))
    expect(opened.value.get_by_role("navigation").first).to_be_visible()
    palette(lab, "Hub Control Panel")
    expect(lab.locator(".lm-CommandPalette-emptyMessage")).to_be_visible()


@pytest.mark.parametrize("environment", ["python-venv", "jupyterlab"])
def test_the_prompt_is_of_the_user_on_the_node(demo: Any, environment: str) -> None:
    """In a container too."""
    someone = Person(demo.url, WHO)
    for _ in with_session(someone, {**CPUS, "environment": environment}):
        said = terminal(someone, 'echo "$SLURMD_NODENAME ${PS1@P}"').split(maxsplit=1)
        assert f"{WHO}@{said[0]}" in said[1]


def test_a_kernel_that_lacks_what_is_imported(demo: Any, owner: Person, lab: Any) -> None:
    cell = {"cell_type": "code", "id": "a", "source": "import os, torch_of_nobody", "metadata": {}}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    content = {
        "cells": [{**cell, "outputs": [], "execution_count": None}],
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    made = {"type": "notebook", "content": content}
    assert owner.session("PUT", "api/contents/lacks.ipynb", json=made).status_code in (200, 201)
    lab.goto(f"{demo.url}/user/{WHO}/lab/tree/lacks.ipynb?reset")
    warning = lab.locator(".Toastify__toast", has_text="lacks torch_of_nobody.")
    expect(warning).to_have_count(1, timeout=60_000)
    lab.goto("about:blank")
    owner.session("DELETE", "api/contents/lacks.ipynb")
