"""A page of JupyterLab whose session is killed: its cell goes on in a job of its own, on the real
demo."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hub_client import Person, wait_until, with_session
from jobs import job_state, kill_server, living_jobs, nothing_left, only_job
from sign_in import sign_in

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

WHO = "student08"
SPEC = "job-jupyterlab-python3-v100"
CPUS = {"environment": "python-venv", "gpus": 0, "cpus": 1, "memory": "2G", "time": "0:40:00"}
LINES = 60
LONG = f"""import time
for number in range({LINES}):
    print("line", number, flush=True)
    time.sleep(1)
print("the end")
"""
WHOLE = "".join(f"line {number}\n" for number in range(LINES)) + "the end\n"
NAME = "killed.ipynb"


@pytest.fixture
def owner(demo: Any) -> Iterator[Person]:
    """Student08 with a session on CPUs, and a notebook whose kernel is a job with a GPU."""
    someone = Person(demo.url, WHO)
    for _ in with_session(someone, CPUS):
        wait_until(
            "the kernels are offered",
            lambda: SPEC in someone.session("GET", "api/kernelspecs").json()["kernelspecs"],
        )
        cell = {"cell_type": "code", "id": "long", "source": LONG, "metadata": {}, "outputs": []}
        content = {"cells": [cell | {"execution_count": None}], "nbformat": 4, "nbformat_minor": 5}
        content["metadata"] = {"kernelspec": {"name": SPEC, "display_name": SPEC}}
        made = someone.session(
            "PUT", f"api/contents/{NAME}", json={"type": "notebook", "content": content}
        )
        assert made.status_code in (200, 201), made.text
        yield someone
    nothing_left(demo, WHO)


def _on_disk(owner: Person) -> str:
    text = owner.session("GET", f"files/{NAME}").text
    if not text:  # it is being written
        return ""
    (cell, *_) = json.loads(text)["cells"]
    return "".join("".join(output.get("text", [])) for output in cell["outputs"])


def test_a_page_that_is_loaded_again_has_each_line(demo: Any, owner: Person, page: Any) -> None:
    session = only_job(demo, WHO)
    sign_in(page, demo.url, WHO)
    page.goto(f"{owner.session_url()}lab/workspaces/w{time.time_ns()}/tree/{NAME}?reset")
    cell = page.locator(".jp-Notebook-cell").first
    output = cell.locator(".jp-OutputArea-output pre")
    expect(page.locator(".portal-JobKernel")).to_contain_text("On gpu", timeout=90_000)
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    expect(output).to_contain_text("line 2", timeout=90_000)
    # The Hub ends the page's login with the session. JupyterLab says that its server is away.
    dismiss = page.get_by_role("button", name="Dismiss")
    page.add_locator_handler(dismiss, lambda: dismiss.click())
    (kernel,) = [row for row in living_jobs(demo, WHO) if row.id != session]
    kill_server(demo, WHO, session)
    wait_until(
        "the Hub has noticed", lambda: "" not in owner.api("GET", f"/users/{WHO}").json()["servers"]
    )
    answer = owner.launch(CPUS)
    assert answer.status_code in (201, 202), answer.text
    owner.wait_ready()
    expect(cell.locator(".jp-InputPrompt")).not_to_have_text("[*]:")
    page.remove_locator_handler(dismiss)
    page.reload()
    expect(output).to_contain_text("line 3", timeout=90_000)  # what was printed before, and at once
    expect(output).to_have_text(WHOLE, timeout=180_000)
    expect(cell.locator(".jp-InputPrompt")).to_have_text("[1]:")
    assert job_state(demo, kernel.id) == "RUNNING"
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+s")
    wait_until("it is saved", lambda: _on_disk(owner) == WHOLE)
