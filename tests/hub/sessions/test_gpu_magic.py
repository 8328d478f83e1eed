"""Single cells on a GPU (``%%gpu``) from a session on CPUs, on the real demo."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hub_client import Person, wait_until
from jobs import job_state, living_jobs, no_free_t4, nothing_left
from notebook_kernel import NotebookKernel

CARD = "1 \N{MULTIPLICATION SIGN} T4"


@pytest.fixture(scope="module")
def session(demo: Any, person: Callable[[str], Person]) -> Iterator[Person]:
    """Ada, with a session without GPUs, in a container."""
    ada = person("ada")
    ada.stop()
    nothing_left(demo, "ada")
    answer = ada.launch({"environment": "jupyterlab", "gpus": 0, "time": "1:00:00"})
    assert answer.status_code in (201, 202), answer.text
    ada.wait_ready()
    yield ada
    ada.stop()
    nothing_left(demo, "ada")


def _job(demo: Any) -> Any:
    """The job of the warm kernel: ada's only one with GPUs. None without one."""
    found = [job for job in living_jobs(demo, "ada") if "gpu" in job.gres]
    assert len(found) <= 1, found
    return found[0] if found else None


def _gone(demo: Any) -> None:
    wait_until("no job with GPUs is left", lambda: _job(demo) is None, 30)


@pytest.fixture
def kernel(demo: Any, session: Person) -> Iterator[NotebookKernel]:
    """The kernel of a notebook. With it, its GPU is given back."""
    kernel = NotebookKernel.start(session)
    yield kernel
    kernel.leave()
    kernel.shut_down()
    _gone(demo)


def test_a_cell_runs_on_a_gpu(demo: Any, kernel: NotebookKernel) -> None:
    ran = kernel.run("%%gpu t4 --time 30\nimport os\nprint(os.environ['SLURMD_NODENAME'], "
                     "os.environ['CUDA_VISIBLE_DEVICES'])")  # fmt: skip
    job = _job(demo)
    assert (ran.status, ran.error) == ("ok", "")
    assert ran.printed.split()[0] == job.node and ran.printed.split()[1].isdigit()
    assert ran.shown[-1] == f"{CARD} on {job.node}, job {job.id}."
    assert f"job {job.id}." in kernel.run("%gpu status").printed
    ran = kernel.run("import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))")
    assert ran.printed == "None\n", "the notebook itself has none"


def test_an_array_goes_over_and_its_double_comes_back(demo: Any, kernel: NotebookKernel) -> None:
    kernel.run("import numpy as np\na = np.arange(2**20, dtype='float32')\nn = {'of': [1, 2]}")
    ran = kernel.run("%%gpu --in a,n --out b,m\nb, m = 2 * a, n['of']")
    assert (ran.status, ran.error) == ("ok", "")
    assert kernel.run("print(np.array_equal(b, 2 * a), b.dtype, m)").printed == (
        "True float32 [1, 2]\n"
    )
    job = _job(demo)
    assert kernel.run("big = np.zeros(257 * 2**20, 'uint8')").status == "ok"
    ran = kernel.run("%%gpu --in big\n1")
    assert ran.error.startswith("'big' has 257 MiB, and at most 256 MiB are sent with a cell.")
    assert _job(demo).id == job.id


def test_errors_and_interrupts(demo: Any, kernel: NotebookKernel) -> None:
    ran = kernel.run("%%gpu\nx = 1\n1 / 0")
    assert (ran.status, ran.error) == ("error", "division by zero")
    job = _job(demo)
    cell = kernel.send("%%gpu\nimport time\nprint('begun', flush=True)\ntime.sleep(120)")
    kernel.until_printed(cell, "begun")
    kernel.ask("interrupt")
    ran = kernel.wait(cell, 20)
    assert (ran.status, ran.printed) == ("error", "begun\n")
    assert kernel.run("%%gpu\nprint(x)").printed == "1\n"
    assert _job(demo).id == job.id


def test_the_gpu_is_given_back(demo: Any, kernel: NotebookKernel) -> None:
    assert kernel.run("%%gpu --idle 3\nx = 1").status == "ok"
    job = _job(demo)
    assert job is not None
    wait_until("it is given back", lambda: _job(demo) is None, 20)
    ran = kernel.run("%%gpu\nprint('x' in globals())")
    assert ran.printed == "False\n"
    assert "given back after 3 s without a cell" in ran.shown[-1]
    assert _job(demo).id != job.id
    assert kernel.run("%gpu stop").printed == "The GPU was given back.\n"
    wait_until("it is given back", lambda: _job(demo) is None, 20)


def test_it_waits_while_all_are_held(demo: Any, kernel: NotebookKernel) -> None:
    with no_free_t4(demo) as give_back:
        cell = kernel.send("%%gpu t4\nprint(1)")
        wait_until("its job waits", lambda: (job := _job(demo)) and job.state == "PENDING")
        time.sleep(5)
        give_back()
        ran = kernel.wait(cell)
        assert (ran.status, ran.printed) == ("ok", "1\n")
        waits = [line for line in ran.shown if line.startswith(f"Waiting for {CARD}. Job ")]
        assert waits and ran.shown[-1].startswith(f"{CARD} on "), ran.shown


def test_a_wait_is_cancelled(demo: Any, kernel: NotebookKernel) -> None:
    with no_free_t4(demo):
        cell = kernel.send("%%gpu t4\nprint(1)")
        wait_until("its job waits", lambda: _job(demo))
        kernel.ask("interrupt")
        assert kernel.wait(cell, 20).status == "error"
        _gone(demo)
        kernel.send("%%gpu t4\nprint(1)")
        wait_until("its job waits", lambda: _job(demo))
        # The kernel ends with what it waits for (see the fixture).


def test_nothing_is_left_of_a_kernel_that_is_killed(demo: Any, session: Person) -> None:
    kernel = NotebookKernel.start(session)
    assert kernel.run("%%gpu\n1").status == "ok"
    job = _job(demo)
    kernel.send("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    wait_until("its job is over", lambda: job_state(demo, job.id) != "RUNNING", 30)
    _gone(demo)
    kernel.leave()
    kernel.shut_down()


def test_nothing_is_left_of_a_session(demo: Any, session: Person) -> None:
    """Last: the session ends while a job waits."""
    with no_free_t4(demo):
        kernel = NotebookKernel.start(session)
        kernel.send("%%gpu t4\nprint(1)")
        wait_until("its job waits", lambda: _job(demo))
        session.stop()
        _gone(demo)
        kernel.leave()


def test_a_course_without_kernels_has_no_gpus(demo: Any, person: Callable[[str], Person]) -> None:
    student = Person(demo.url, "student06")
    student.api("GET", "/user")
    student.stop("course-dl101")
    answer = student.launch({"course": "dl101"}, "course-dl101")
    assert answer.status_code in (201, 202), answer.text
    student.wait_ready("course-dl101")
    try:
        kernel = NotebookKernel.start(student, server="course-dl101")
        ran = kernel.run("%%gpu\n1")
        assert "does not allow kernels in jobs of their own" in ran.error, ran
        kernel.leave()
    finally:
        student.stop("course-dl101")
