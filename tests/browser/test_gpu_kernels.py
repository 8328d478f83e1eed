"""A notebook on CPUs and its GPUs, from a full cluster to the last one given back, as a person sees
it in JupyterLab; on the real demo."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hub_client import Person, wait_until, with_session
from jobs import kill_server, living_jobs, no_free_t4, nothing_left
from kernel_page import WHERE, card, choose, item, where
from lab_page import command, new_notebook, run_cell
from looks import take_picture
from sign_in import sign_in
from terminal import terminal

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

WHO = "student08"
SESSION = {
    "environment": "jupyterlab",
    "gpus": 0,
    "cpus": 1,
    "memory": "2G",
    "time": "1:00:00",
}
SPEC = "job-jupyterlab-python3-t4"
STARTS = 90_000  # milliseconds: a job starts, and a kernel in it
NOTEBOOK = "Untitled.ipynb"
_SCRIPT = {
    "cells": [
        {
            "cell_type": "code",
            "id": "a",
            "metadata": {},
            "source": WHERE,
            "outputs": [],
            "execution_count": None,
        }
    ],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}
_CLIENTS = f"""cd; pip install -q papermill 2>&1 | tail -n 3
papermill -k {SPEC} script.ipynb papermill.ipynb; echo papermill=$?
jupyter execute --kernel_name={SPEC} --output=client.ipynb script.ipynb; echo client=$?
pip uninstall -qy papermill"""


@pytest.fixture
def owner(demo: Any) -> Iterator[Person]:
    """Student08 with a session on CPUs; at the end nothing of hers is left."""
    student = Person(demo.url, WHO)
    for _ in with_session(student, SESSION):
        _wait_for_offer(student)
        _remove_notebooks(student)  # of another file's tests: the next one is Untitled.ipynb
        yield student
        _remove_notebooks(student)
    nothing_left(demo, WHO)


def _remove_notebooks(owner: Person) -> None:
    for file in owner.session("GET", "api/contents/").json()["content"]:
        if file["name"].endswith(".ipynb"):
            owner.session("DELETE", f"api/contents/{file['name']}")


def _wait_for_offer(owner: Person) -> None:
    wait_until(
        "kernels are offered",
        lambda: owner.session("GET", "portal/job-kernels").json().get("items"),
    )


def _kernel_jobs(demo: Any) -> list[Any]:
    return [row for row in living_jobs(demo, WHO) if "gpu" in row.gres]


def _kernel_job(demo: Any) -> Any:
    """The job with GPUs; None without one."""
    found = _kernel_jobs(demo)
    assert len(found) <= 1, found
    return found[0] if found else None


def _printed(owner: Person, name: str = NOTEBOOK, cell: int = 0) -> str:
    """The text that a cell of a notebook has in its file."""
    answer = owner.session("GET", f"api/contents/{name}")
    cells = answer.json()["content"]["cells"] if answer.status_code == 200 else []
    outputs = cells[cell].get("outputs", []) if len(cells) > cell else []
    return "".join(output.get("text", "") for output in outputs)


def test_from_a_full_cluster_to_the_last_gpu_given_back(
    demo: Any, owner: Person, page: Any
) -> None:
    page = _waits_without_a_browser(demo, owner, page)
    _is_interrupted_and_restarted_in_place(demo, page)
    _survives_its_session(demo, owner, page)
    _gets_two_gpus_and_gives_all_back(demo, page)
    _runs_one_cell_on_a_gpu(demo, page)
    _serves_other_clients(demo, owner)


def _waits_without_a_browser(demo: Any, owner: Person, page: Any) -> Any:
    """Run a cell while all GPUs are held, close the page, and find the output in the file."""
    context = page.context
    sign_in(page, demo.url, WHO)
    page.set_viewport_size({"width": 1400, "height": 850})
    with no_free_t4(demo) as give_back:
        page.goto(f"{demo.url}/user/{WHO}/lab/workspaces/gpu?reset")
        usual = card(page, re.compile("^Python \u00b7 1 \u00d7 T4$"))
        usual.click(timeout=STARTS)
        expect(item(page).get_by_role("status")).to_contain_text("Waiting: ", timeout=STARTS)
        cell = page.locator(".jp-Notebook-cell .cm-content").last
        cell.click()
        cell.fill(WHERE)
        page.keyboard.press("Shift+Enter")
        expect(page.locator(".jp-InputPrompt").first).to_have_text("[*]:")
        page.keyboard.press("Control+S")
        wait_until("the notebook is saved", lambda: _saved_code(owner))
        page.close()
        assert _kernel_job(demo).state == "PENDING"
        give_back()
        found = json.loads(
            wait_until("its output is in the file", lambda: _printed(owner)).partition(" done")[0]
        )
    job = _kernel_job(demo)
    assert found["PORTAL_JOB_ID"] == job.id and found["SLURMD_NODENAME"] == job.node
    page = context.new_page()
    page.goto(f"{demo.url}/user/{WHO}/lab/workspaces/gpu/tree/{NOTEBOOK}")
    expect(page.locator(".jp-OutputArea-output pre").first).to_contain_text(job.id, timeout=STARTS)
    expect(item(page).get_by_role("status")).to_contain_text(f"On {job.node} until")
    return page


def _saved_code(owner: Person) -> bool:
    answer = owner.session("GET", f"api/contents/{NOTEBOOK}")
    return answer.status_code == 200 and "PORTAL_JOB_ID" in answer.text


def _is_interrupted_and_restarted_in_place(demo: Any, page: Any) -> None:
    job = _kernel_job(demo)
    cell = page.locator(".jp-Notebook-cell .cm-content").last
    cell.click()
    cell.fill("import time; print('begun', flush=True); time.sleep(600)")
    page.keyboard.press("Shift+Enter")
    expect(page.locator(".jp-OutputArea-output pre").last).to_contain_text("begun")
    command(page, "Interrupt Kernel")
    expect(page.locator(".jp-OutputArea-output pre").last).to_contain_text("KeyboardInterrupt")
    command(page, "Restart Kernel\u2026")
    page.get_by_role("dialog").get_by_role("button", name="Confirm Kernel Restart").click()
    code = "x = 41; import os; print(os.environ['PORTAL_JOB_ID'], 'again')"
    assert run_cell(page, code, "again").split()[0] == job.id


def _survives_its_session(demo: Any, owner: Person, page: Any) -> None:
    """Kill the session's server; the next one has the kernel, its variables and what it printed."""
    job = _kernel_job(demo)
    (session,) = [row for row in living_jobs(demo, WHO) if row.id != job.id]
    kill_server(demo, WHO, session.id)
    wait_until("the Hub has noticed", lambda: not owner.server())
    assert owner.launch(SESSION).status_code in (201, 202)
    owner.wait_ready()
    _wait_for_offer(owner)
    wait_until("it is taken up", lambda: owner.session("GET", "api/kernels").json())
    page.goto(f"{demo.url}/user/{WHO}/lab/workspaces/gpu/tree/{NOTEBOOK}")
    expect(item(page).get_by_role("status")).to_contain_text("On gpu", timeout=STARTS)
    assert run_cell(page, "print(x + 1, 'kept')", "kept").split() == ["42", "kept"]
    assert _kernel_job(demo).id == job.id
    take_picture(page, "gpu-kernel-taken-up")


def _gets_two_gpus_and_gives_all_back(demo: Any, page: Any) -> None:
    former = _kernel_job(demo)
    item(page).get_by_role("button", name="Kernel with GPUs").click()
    choose(page, GPUs="2", GPU_type="t4")

    def over() -> bool:
        """Return True once the former job, which the new one may wait for, has ended."""
        return former.id not in [job.id for job in _kernel_jobs(demo)]

    wait_until("the former job is over", lambda: over() and _kernel_jobs(demo))
    expect(item(page).get_by_role("status")).to_contain_text("On gpu", timeout=STARTS)
    assert where(page)["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert _kernel_job(demo).gres.endswith(":2")
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_role("menuitem", name="Shut Down Kernel").click()
    wait_until("all GPUs are given back", lambda: _kernel_job(demo) is None)


def _runs_one_cell_on_a_gpu(demo: Any, page: Any) -> None:
    """Run a cell with ``%%gpu``; its job holds one GPU, for as long as accounting says."""
    new_notebook(page, f"{demo.url}/user/{WHO}/lab/workspaces/magic")
    began = time.monotonic()
    code = "%%gpu t4 --idle 5\nimport os\nprint(os.environ['PORTAL_JOB_ID'], 'there')"
    job_id = run_cell(page, code, "there").split()[0]
    wait_until("its GPU is given back", lambda: _kernel_job(demo) is None)
    took = time.monotonic() - began
    fields = ["sacct", "-nPX", "-j", job_id, "-o", "ElapsedRaw,AllocTRES,State"]

    def accounted() -> Any:
        line = demo.run(fields).stdout.strip()  # empty until slurmdbd has it
        seconds, resources, state = line.split("|") if line else ("", "", "")
        return state == "COMPLETED" and (int(seconds), resources)

    seconds, resources = wait_until("it is accounted for", accounted)
    assert 5 <= seconds <= took + 1 and "gres/gpu=1" in resources


def _serves_other_clients(demo: Any, owner: Person) -> None:
    """Run a notebook by papermill and by a plain client, with the kernel's name."""
    body = {"type": "notebook", "content": _SCRIPT}
    answer = owner.session("PUT", "api/contents/script.ipynb", json=body)
    assert answer.status_code == 201, answer.text
    said = terminal(owner, _CLIENTS)
    assert "papermill=0" in said and "client=0" in said, said
    jobs = {
        json.loads(_printed(owner, name).partition(" done")[0])["PORTAL_JOB_ID"]
        for name in ("papermill.ipynb", "client.ipynb")
    }
    (session,) = living_jobs(demo, WHO)
    assert len(jobs | {session.id}) == 3, "each had a job of its own, which is over"
