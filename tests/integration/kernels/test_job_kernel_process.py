"""The process of a kernel in a job: from its kernelspec, without jupyter_client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import NoSuchKernel
from machine import patience
from portal_session.job_kernels.job import kernel_process
from portal_session.job_kernels.job.kernel_process import KernelProcess

PATIENCE = patience(20.0)
# Writes what it was started with, and says so; an interrupt makes it end with 7.
PROGRAM = """
import json, os, signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit(7))
told = {"argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ), "tty": sys.stdin.read()}
with open("told.new", "w") as file:
    json.dump(told, file)
os.replace("told.new", "told")
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a job's owner, with kernelspecs in it."""
    for name in ("PORTAL_KERNELS", "PORTAL_CONTAINER", "PYTHONSTARTUP", "PORTAL_KERNEL_SPECS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "secret")
    monkeypatch.setenv("PYTHONEXECUTABLE", "/the/starter")
    (tmp_path / "work").mkdir()
    (tmp_path / "sockets").mkdir(mode=0o700)
    return tmp_path


def install(home: Path, name: str = "mine", **content: Any) -> Path:
    folder = home / "jupyter/kernels" / name
    folder.mkdir(parents=True)
    argv = ["python3", "-c", PROGRAM, "{connection_file}", "{resource_dir}/x", "~", "{other}"]
    spec = {"argv": argv, "display_name": "Mine", "language": "R", **content}
    (folder / "kernel.json").write_text(json.dumps(spec))
    return folder


def process_of(home: Path, name: str = "mine") -> KernelProcess:
    return KernelProcess(name, home / "sockets", "key of the messages", str(home / "work"))


def told(home: Path) -> dict[str, Any]:
    path, deadline = home / "work/told", time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < deadline, "the program was not started"
        time.sleep(0.02)
    return dict(json.loads(path.read_text()))


def test_it_starts_as_its_kernelspec_says(job: Path) -> None:
    folder = install(job, language="python", env={"OF_SPEC": "${SLURM_JOB_ID} and $HOME"})
    process = process_of(job)
    process.start()
    try:
        found = told(job)
    finally:
        process.kill()
    file = job / "sockets/kernel.json"
    assert found["argv"] == [str(file), f"{folder}/x", str(job), "{other}"]
    assert (found["cwd"], found["tty"]) == (str(job / "work"), "")
    assert file.stat().st_mode & 0o777 == 0o600
    info = json.loads(file.read_text())
    assert info == process.info
    assert (info["key"], info["transport"]) == ("key of the messages", "ipc")
    assert info["ip"].startswith(str(job / "sockets/"))
    assert len({info[f"{name}_port"] for name in ("shell", "iopub", "stdin", "control", "hb")}) == 5
    env = found["env"]
    assert env["OF_SPEC"] == f"12 and {job}"
    assert env["PORTAL_JOB_ID"] == "12" and env["JPY_PARENT_PID"] == str(os.getpid())
    assert not {"SLURM_JOB_ID", "JUPYTERHUB_API_TOKEN", "PYTHONEXECUTABLE"} & set(env)
    assert (env["PORTAL_KERNEL_NAME"], Path(env["PYTHONSTARTUP"]).name) == ("mine", "startup.py")


def test_an_interrupt_and_a_kill_reach_it_and_it_starts_again(job: Path) -> None:
    install(job)
    process = process_of(job)
    assert (process.pid, process.fresh) == (0, False)
    process.start()
    assert process.fresh and process.poll() is None
    told(job)
    process.interrupt()
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert process.poll() == 7
    first, sockets = process.pid, process.info["ip"]
    process.interrupt()  # nothing is left to interrupt
    (job / "work/told").unlink()
    process.start()
    told(job)
    assert process.pid != first and process.info["ip"] != sockets, "its sockets may be there still"
    killed = process.pid
    process.kill()
    assert (process.pid, process.fresh) == (0, False)
    assert not Path(f"/proc/{killed}").exists()


@pytest.mark.parametrize("mode", ["signal", "message"])
def test_the_kernelspec_says_how_it_is_interrupted(job: Path, mode: str) -> None:
    install(job, interrupt_mode=mode)
    process = process_of(job)
    process.start()
    process.kill()
    assert process.interrupted_by_message is (mode == "message")


def test_what_cannot_be_started_says_why(job: Path) -> None:
    install(job, "elsewhere", metadata={"kernel_provisioner": {"provisioner_name": "k8s"}})
    install(job, "gone", argv=["/no/such/program"])
    with pytest.raises(OSError, match="requires the provisioner 'k8s'"):
        process_of(job, "elsewhere").start()
    process = process_of(job, "gone")
    with pytest.raises(OSError, match="/no/such/program"):
        process.start()
    assert not process.fresh
    with pytest.raises(NoSuchKernel):
        process_of(job, "unknown").start()


@pytest.mark.parametrize(
    ("module", "left_out"),
    [
        ("starter", {"asyncio", "jupyter_client", "traitlets", "zmq"}),  # before the kernel's start
        ("job.connected_kernel", {"jupyter_client", "traitlets", "tornado"}),
        ("relay", {"jupyter_client", "traitlets", "tornado"}),
    ],
)
def test_little_is_loaded_while_a_kernel_starts(module: str, left_out: set[str]) -> None:
    """Each takes a tenth of a second and more."""
    code = f"import sys, portal_session.job_kernels.{module} as _; print(*sys.modules)"
    found = {"PYTHONPATH": str(Path(kernel_process.__file__).parents[3])}
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, env=found, capture_output=True, text=True, check=True)
    assert not left_out & set(done.stdout.split())
