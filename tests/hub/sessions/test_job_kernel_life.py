"""The life of a kernel in a job of its own, on the real demo, used as a notebook does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hub_client import Person, wait_until, with_session
from jobs import job_state, kill_server, living_jobs, no_free_t4, nothing_left
from notebook_kernel import NotebookKernel

WHERE = "import os; print(os.environ.get('SLURMD_NODENAME'), os.environ['CUDA_VISIBLE_DEVICES'])"
SPEC = "job-jupyterlab-python3-t4"
CPUS = {"environment": "python-venv", "gpus": 0, "time": "1:00:00"}


@pytest.fixture(scope="module")
def ada(demo: Any, person: Callable[[str], Person]) -> Iterator[Person]:
    """Ada, with a session without GPUs, for all tests here."""
    nothing_left(demo, "ada")
    for ada in with_session(person("ada"), CPUS):
        wait_until("the kernels are offered", lambda ada=ada: SPEC in _specs(ada))
        yield ada


def _specs(person: Person) -> dict[str, Any]:
    return dict(person.session("GET", "api/kernelspecs").json()["kernelspecs"])


def _job(demo: Any) -> Any:
    """The kernel's job: ada's only job with GPUs. None without one."""
    found = [job for job in living_jobs(demo, "ada") if "gpu" in job.gres]
    assert len(found) <= 1, found
    return found[0] if found else None


@pytest.fixture
def start(demo: Any, ada: Person) -> Iterator[Callable[..., NotebookKernel]]:
    """``start(path="")``: a kernel with a t4 GPU, of a notebook if that has a path. After the test
    no job with GPUs is left."""
    started: list[NotebookKernel] = []

    def kernel(path: str = "") -> NotebookKernel:
        started.append(NotebookKernel.start(ada, SPEC, path))
        return started[-1]

    yield kernel
    for one in started:
        one.leave()
        if ada.session("GET", f"api/kernels/{one.id}").status_code == 200:
            one.shut_down()
    wait_until("its job is over", lambda: _job(demo) is None)
    wait_until("its record is gone", lambda: not _records(demo))


@pytest.fixture
def kernel(start: Callable[..., NotebookKernel]) -> NotebookKernel:
    """A kernel with a t4 GPU."""
    return start()


def _records(demo: Any) -> list[str]:
    script = "import os; print(*os.listdir(os.path.expanduser('~/.portal/.kernels')))"
    done = demo.run(["/usr/bin/python3", "-c", script], user=demo.user("ada"))
    return list(done.stdout.split())


def test_they_are_ordinary_kernelspecs(ada: Person) -> None:
    spec = _specs(ada)[SPEC]["spec"]
    assert "· 1 \u00d7 T4 ·" in spec["display_name"], spec
    assert spec["language"] == "python"
    assert spec["metadata"]["portal_job_kernel"]["gpu_type"] == "t4"


def test_a_cell_runs_on_a_gpu(demo: Any, kernel: NotebookKernel) -> None:
    ran = kernel.run(WHERE)
    job = _job(demo)
    assert (ran.status, ran.error) == ("ok", "")
    assert ran.printed.split()[0] == job.node
    assert ran.printed.split()[1].isdigit()


def test_interrupt_and_restart_keep_the_job(demo: Any, kernel: NotebookKernel) -> None:
    assert kernel.run("x = 1").status == "ok"
    job = _job(demo)
    running = kernel.send("import time\nprint('begun', flush=True)\ntime.sleep(60)")
    kernel.until_printed(running, "begun")
    kernel.ask("interrupt")
    assert kernel.wait(running, 10).status == "error"
    assert kernel.run("print(x)").printed == "1\n"
    began = time.monotonic()
    kernel.ask("restart")
    assert kernel.run("print('x' in globals())").printed == "False\n"
    assert time.monotonic() - began < 30
    assert _job(demo).id == job.id


def test_a_kernel_that_dies_says_why_and_is_started_again(
    demo: Any, kernel: NotebookKernel
) -> None:
    assert kernel.run("x = 1").status == "ok"
    job = _job(demo)
    ran = kernel.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert "The kernel was killed, probably because the job ran out of memory." in ran.error
    assert kernel.run("print('x' in globals())").printed == "False\n"
    assert _job(demo).id == job.id


def test_a_job_that_is_cancelled_is_named(demo: Any, kernel: NotebookKernel) -> None:
    running = kernel.send("import time\nprint('begun', flush=True)\ntime.sleep(120)")
    job = wait_until("its job", lambda: _job(demo))
    wait_until("its job runs", lambda: job_state(demo, job.id) == "RUNNING")
    kernel.until_printed(running, "begun")
    demo.run(["scancel", job.id], user=demo.user("ada"))
    ran = kernel.wait(running, 60)
    assert ran.status == "error" and "Restart the kernel" in ran.error, ran
    assert "cancelled" in ran.error.lower(), ran
    again = kernel.run("print(1)")
    assert again.status == "error" and "Restart the kernel" in again.error
    wait_until("the job is over", lambda: _job(demo) is None)
    kernel.ask("restart")
    assert kernel.run("print(2)").printed == "2\n"
    assert _job(demo).id != job.id


def test_it_waits_while_the_gpus_are_held_and_runs_what_was_asked(
    demo: Any, start: Callable[..., NotebookKernel]
) -> None:
    with no_free_t4(demo) as give_back:
        kernel = start()
        cells = [kernel.send(f"print({number})") for number in range(3)]
        wait_until("its job waits", lambda: (job := _job(demo)) and job.state == "PENDING")
        _told_why(demo, kernel)
        give_back()
        assert [kernel.wait(cell).printed for cell in cells] == ["0\n", "1\n", "2\n"]


def _told_why(demo: Any, kernel: NotebookKernel) -> None:
    """Wait until the session knows why the kernel waits."""

    def told() -> bool:
        states = kernel.person.session("GET", "portal/job-kernels").json()["kernels"]
        state = states.get(kernel.id, {})
        return state.get("state") == "waiting" and f"Job {_job(demo).id}" in state["message"]

    wait_until("the session is told why", told)


def test_a_wait_is_cancelled(demo: Any, start: Callable[..., NotebookKernel]) -> None:
    with no_free_t4(demo):
        kernel = start()
        cell = kernel.send("print(1)")
        wait_until("its job waits", lambda: _job(demo))
        _told_why(demo, kernel)
        kernel.ask("interrupt")
        assert kernel.wait(cell, 20).status == "error"
        kernel.shut_down()
        wait_until("its job is gone", lambda: _job(demo) is None)


NOTEBOOK = "killed.ipynb"
LONG = """import time
for number in range(20):
    print(number, flush=True)
    time.sleep(1)
x += 1
print("the end")
"""


def _make_notebook(person: Person, source: str) -> None:
    """Save a notebook with one cell, which has never run."""
    cell = {"cell_type": "code", "id": "long", "source": source, "metadata": {}, "outputs": []}
    content = {"cells": [cell | {"execution_count": None}], "nbformat": 4, "nbformat_minor": 5}
    body = {"type": "notebook", "content": {**content, "metadata": {}}}
    answer = person.session("PUT", f"api/contents/{NOTEBOOK}", json=body)
    assert answer.status_code in (200, 201), answer.text


def _noted(demo: Any) -> bool:
    """Return True once ada's session has noted the kernel's notebook, which it does every 5 s."""
    script = "import pathlib; print(*pathlib.Path.home().glob('.portal/.kernels/*.notebook'))"
    return bool(demo.run(["/usr/bin/python3", "-c", script], user=demo.user("ada")).stdout.strip())


def _printed(demo: Any) -> str:
    """Return what the notebook's cell has printed, as its file has it."""
    script = f"import os; print(open(os.path.expanduser('~/{NOTEBOOK}')).read())"
    done = demo.run(["/usr/bin/python3", "-c", script], user=demo.user("ada"))
    if not done.stdout.strip():
        return ""  # it is being written
    (cell,) = json.loads(done.stdout)["cells"]
    return "".join("".join(output.get("text", [])) for output in cell["outputs"])


def test_a_server_that_is_killed_leaves_it_to_the_next(
    demo: Any, ada: Person, start: Callable[..., NotebookKernel]
) -> None:
    _make_notebook(ada, LONG)
    kernel = start(NOTEBOOK)
    assert kernel.run("x = 41").status == "ok"
    kernel.until_printed(kernel.send(LONG, cell="long"), "2\n")
    wait_until("the session has noted whose kernel it is", lambda: _noted(demo))
    job = _job(demo)
    (session,) = [row for row in living_jobs(demo, "ada") if row.id != job.id]
    kernel.leave()
    kill_server(demo, "ada", session.id)
    assert job_state(demo, job.id) == "RUNNING"
    wait_until(
        "the Hub has noticed",
        lambda: "" not in ada.api("GET", "/users/ada").json()["servers"],
    )
    answer = ada.launch(CPUS)
    assert answer.status_code in (201, 202), answer.text
    ada.wait_ready()
    wait_until(
        "the kernel is taken up",
        lambda: ada.session("GET", f"api/kernels/{kernel.id}").status_code == 200,
    )
    # Nobody has the notebook open.
    wait_until("its output is on disk", lambda: "the end" in _printed(demo), timeout=150)
    assert _printed(demo).split() == [*map(str, range(20)), "the", "end"]
    taken = NotebookKernel(ada, kernel.id)
    assert taken.run("print(x)").printed.splitlines()[-1] == "42"
    assert _job(demo).id == job.id
    taken.leave()
