"""Slurm, the service and the clock against a kernel in a job of its own, on the real demo. After
all of it nothing is left: no job, no record, no process."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hub_client import Person, wait_until, with_session
from jobs import job_state, living_jobs, nothing_left
from notebook_kernel import NotebookKernel
from outages import without
from processes import mark
from terminal import terminal
from web_service import kill_service

WHO = "student11"
SPEC = "job-jupyterlab-python3-t4"
CPUS = {"environment": "python-venv", "gpus": 0, "time": "1:00:00"}
CHOSEN = {"environment": "jupyterlab", "kernel": "python3", "gpus": 1, "gpu_type": "v100"}
SLEEPING = "import time\nprint('begun', flush=True)\ntime.sleep(600)"
_RELAYS = """
import os, sys
for name in os.listdir("/proc"):
    try:
        if os.stat("/proc/" + name).st_uid == os.getuid():
            with open(f"/proc/{name}/cmdline") as line, open(f"/proc/{name}/environ") as own:
                relay = "portal_session.job" + "_kernels" in line.read()
                if relay and sys.argv[1] in own.read(): print(name)
    except OSError: pass
"""


@pytest.fixture(scope="module")
def owner(demo: Any) -> Iterator[Person]:
    """Student11 with a session without GPUs, for all tests here; then nothing of hers is left."""
    nothing_left(demo, WHO)
    student = Person(demo.url, WHO)
    for _ in with_session(student, CPUS):
        wait_until("the kernels are offered", lambda: SPEC in _specs(student))
        yield student
        wait_until("no kernel is left", lambda: len(living_jobs(demo, WHO)) == 1)
        wait_until("no record is left", lambda: _records(demo) == "choices")
    nothing_left(demo, WHO)
    argv = ["/usr/bin/python3", "-c", _RELAYS, mark(demo)]
    relays = demo.run(argv, user=demo.user(WHO)).stdout
    assert relays == "", "processes are left"


@pytest.fixture(scope="module", autouse=True)
def brief(owner: Person) -> Iterator[NotebookKernel]:
    """A kernel of a minute, Slurm's shortest time limit, which runs out while other tests run."""
    answer = owner.session("POST", "portal/job-kernels", json={**CHOSEN, "time": "0:01:00"})
    assert answer.status_code == 200, answer.text
    kernel = NotebookKernel.start(owner, answer.json()["name"])
    yield kernel
    kernel.leave()
    kernel.shut_down()


@pytest.fixture
def kernel(demo: Any, owner: Person) -> Iterator[NotebookKernel]:
    """A kernel with a t4 GPU that runs. After the test its job is over."""
    kernel = NotebookKernel.start(owner, SPEC)
    assert kernel.run("x = 41").status == "ok"
    yield kernel
    kernel.leave()
    if owner.session("GET", f"api/kernels/{kernel.id}").status_code == 200:
        kernel.shut_down()
    wait_until("its job is over", lambda: _job(demo) is None)


def _specs(person: Person) -> dict[str, Any]:
    return dict(person.session("GET", "api/kernelspecs").json()["kernelspecs"])


def _records(demo: Any) -> str:
    """The files of the student's kernels, and the one of the kernels that she chose."""
    argv = ["sh", "-c", "ls ~/.portal/.kernels"]
    return str(demo.run(argv, user=demo.user(WHO), check=False).stdout).strip()


def _job(demo: Any) -> Any:
    """The job with a t4; None without one."""
    found = [job for job in living_jobs(demo, WHO) if "t4" in job.gres]
    assert len(found) <= 1, found
    return found[0] if found else None


def test_two_pages_share_it(demo: Any, owner: Person, kernel: NotebookKernel) -> None:
    """Each has its own answers; the other's leaving and interrupting change nothing else."""
    other = NotebookKernel(owner, kernel.id)
    assert other.run("x += 1\nprint(x)").printed == "42\n"
    cells = [page.send(f"print('{name}')") for page, name in ((kernel, "first"), (other, "second"))]
    assert kernel.wait(cells[0]).printed == "first\n"
    assert other.wait(cells[1]).printed == "second\n"
    running = kernel.send(SLEEPING)
    kernel.until_printed(running, "begun")
    other.ask("interrupt")
    assert kernel.wait(running, 20).status == "error"
    other.leave()
    assert kernel.run("print(x)").printed == "42\n"
    assert _job(demo)


def test_slurmctld_away(demo: Any, kernel: NotebookKernel) -> None:
    """What runs goes on and is restarted, and what is shut down ends."""
    job = _job(demo)
    with without(demo, "slurmctld"):
        assert kernel.run("print(x)").printed == "41\n"
        kernel.ask("restart")
        assert kernel.run("print('x' in globals())").printed == "False\n"
        kernel.leave()
        kernel.shut_down()
    wait_until("the job is over", lambda: job_state(demo, job.id) in ("", "COMPLETED", "CANCELLED"))


def test_slurmctld_away_at_the_start(demo: Any, owner: Person) -> None:
    """A kernel that is asked for before the Hub has noticed waits for slurmctld. Later ones are
    refused, with the reason in their cells."""
    refusal = "Slurm does not answer now, so nothing was submitted."
    kernels: list[NotebookKernel] = []
    try:
        with without(demo, "slurmctld"):
            kernels.append(NotebookKernel.start(owner, SPEC))
            cell = kernels[0].send("print(42)")
            time.sleep(10)
            kernels.append(NotebookKernel.start(owner, SPEC))
            late = kernels[1].run("print(1)", 60)
            assert late.status == "error" and refusal in late.error
        early = kernels[0].wait(cell, 60)
        has_job = _job(demo) is not None
        assert early.printed == "42\n" if has_job else refusal in early.error

        def restarted() -> bool:
            kernels[1].ask("restart")
            return kernels[1].run("print(2)", 60).printed == "2\n"

        wait_until("a restart is enough", restarted, every=2)
    finally:
        for kernel in kernels:
            kernel.leave()
            kernel.shut_down()
    wait_until("its job is over", lambda: _job(demo) is None)


def test_a_full_disk_is_named_in_the_cell(demo: Any, owner: Person) -> None:
    """A kernel without a record gets no job; with space again, a restart is enough."""
    user = demo.user(WHO)
    folder = demo.run(["sh", "-c", "echo ~/.portal/.kernels"], user=user).stdout.strip()
    uid = demo.run(["id", "-u"], user=user).stdout.strip()
    disk = f"size=64k,mode=700,uid={uid},gid={uid}"
    demo.run(["mount", "-t", "tmpfs", "-o", disk, "none", folder])
    try:
        demo.run(["dd", "if=/dev/zero", f"of={folder}/filler", "bs=4k"], check=False)
        kernel = NotebookKernel.start(owner, SPEC)
        ran = kernel.run("print(1)", 60)
        assert ran.status == "error"
        assert f"cannot be written to {folder}: No space left on device" in ran.error
        assert _job(demo) is None
    finally:
        demo.run(["umount", "--lazy", folder])
    kernel.ask("restart")
    assert kernel.run("print(1)", 60).printed == "1\n"
    kernel.leave()
    kernel.shut_down()
    wait_until("its job is over", lambda: _job(demo) is None)


def test_the_hub_and_the_service_away(demo: Any, kernel: NotebookKernel) -> None:
    """A relay asks them while it has no connection only."""
    with without(demo, "hub"):
        assert kernel.run("print(x)").printed == "41\n"
        kernel.ask("restart")
        assert kernel.run("x = 1\nprint(x)").printed == "1\n"
    assert kernel.run("print(x)").printed == "1\n"


def test_the_service_killed_at_the_start(demo: Any, owner: Person) -> None:
    """A kernel and a run that are asked for meanwhile wait for it, with their cells."""
    script = "mkdir -p away && echo 'print(1)' > away/job.py"
    terminal(owner, script)
    kill_service(demo)
    killed_at = time.monotonic()
    kernel = NotebookKernel.start(owner, SPEC)
    cell = kernel.send("print(42)")
    said = terminal(owner, "portal-run away/job.py --cpus 1 --memory 512M")
    print(f"The run was accepted after {time.monotonic() - killed_at:.1f} s: {said}")
    assert "Run 'job': 1 point" in said
    assert kernel.wait(cell).printed == "42\n"
    kernel.leave()
    kernel.shut_down()
    wait_until("both jobs are over", lambda: len(living_jobs(demo, WHO)) == 1)


def test_a_node_that_fails_is_named_in_the_cell(demo: Any, kernel: NotebookKernel) -> None:
    job = _job(demo)
    running = kernel.send(SLEEPING)
    time.sleep(1)
    demo.run(["scontrol", "update", f"NodeName={job.node}", "State=DOWN", "Reason=test"])
    try:
        ran = kernel.wait(running, 90)
        assert ran.status == "error" and ran.printed == "begun\n"
        assert re.search("node failed.* Restart the kernel", ran.error), ran.error
        wait_until("the job is over", lambda: _job(demo) is None)
    finally:
        # slurmd has brought it back by itself where it was quick (ReturnToService).
        demo.run(["scontrol", "update", f"NodeName={job.node}", "State=RESUME"], check=False)
    kernel.ask("restart")
    assert kernel.run("print('x' in globals())").printed == "False\n"


def test_walltime(brief: NotebookKernel) -> None:
    ended = "The kernel reached its time limit of 1 min. Choose a longer time limit next time. "

    def told() -> Any:
        ran = brief.run("print(1)")
        return ran.status == "error" and ran.error

    error = wait_until("the time is over", told, every=2)
    assert error.startswith(ended + "Restart the kernel to request a new job."), error
    assert "DUE TO TIME LIMIT" in error, "with the end of its log"
