"""Session with job kernels, of which only the portal and Slurm are played: relay, starter, broker
and kernels are real."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jupyter_client.manager import KernelManager
from machine import patience
from portal_session.job_kernels import broker, specs
from portal_session.kernels import command_line, environment
from portal_session.service import ServiceError

OFFER = {
    "items": [
        {
            "environment": "venv",
            "title": "venv",
            "kernels": [{"name": "python3", "title": "Python 3", "language": "python"}],
            "gpu_types": ["t4", "v100"],
        }
    ]
}


OF_A_JOB = {"SLURM_JOB_ID": "12", "SLURMD_NODENAME": "gpu01", "CUDA_VISIBLE_DEVICES": "7"}


class Jobs(broker.Kernels):
    """The portal and Slurm: a job is a process of this machine. ``held``: jobs wait."""

    def __init__(self, environ: dict[str, str]) -> None:
        super().__init__(None)
        self._environ = environ
        self.held = False
        self.slow = 0.0  # seconds that a submission takes
        self.asked: list[dict[str, Any]] = []
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.waiting: list[str] = []

    async def offered(self) -> dict[str, Any]:
        return {**OFFER, "address": "127.0.0.1"}

    async def start(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["gpus"] > 2:
            raise ServiceError("You may use at most 2 GPUs.", 403)
        self.asked.append(body)
        await asyncio.sleep(self.slow)
        self.waiting.append(body["id"])
        if not self.held:
            self.give()
        return {"id": body["id"]}

    def give(self) -> None:
        """Start the jobs that wait."""
        self.held, waiting, self.waiting = False, self.waiting, []
        for id in waiting:
            named = json.dumps({"id": id, "name": "python3"})
            self.running[id] = subprocess.Popen(
                [sys.executable, "-m", "portal_session.job_kernels.starter"],
                env={**self._environ, **OF_A_JOB, "PORTAL_KERNEL": named},
                start_new_session=True,
            )

    async def status(self, id: str) -> dict[str, Any]:
        if id in self.waiting:
            message = "Job 12: waiting for resources: 2nd in the queue."
            return {"state": "waiting", "job_id": "12", "message": message}
        job = self.running.get(id)
        if job is not None and job.poll() is None:
            message = "Job 12 is running on gpu01."
            return {"state": "running", "job_id": "12", "node": "gpu01", "message": message}
        return {"state": "ended", "message": "The kernel's job was cancelled."}

    async def stop(self, id: str) -> dict[str, Any]:
        if id in self.waiting:
            self.waiting.remove(id)
        if id in self.running:
            self.running[id].terminate()
        return {}

    @property
    def living(self) -> int:
        """Jobs that wait or run."""
        return len(self.waiting) + sum(job.poll() is None for job in self.running.values())

    def end(self) -> None:
        """Kill what is left."""
        for job in self.running.values():
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()


class Session(NamedTuple):
    """What a session's server provides: jobs, and the environment of its kernels."""

    jobs: Jobs
    environ: dict[str, str]

    @property
    def home(self) -> Path:
        """Home of the session's owner."""
        return Path(self.environ["HOME"])

    @property
    def temporary(self) -> Path:
        """Folder for temporary files of kernels."""
        return Path(self.environ["TMPDIR"])


def job_kernel_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Yield a session once, for a fixture: a broker in a thread of its own, and the kernelspecs on
    disk."""
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("k")
    package = Path(command_line.__file__).parents[2]
    installed = tmp_path_factory.mktemp("installed")  # as far as jupyter_client asks for it
    metadata = installed / "portal_session-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: portal-session\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[jupyter_client.kernel_provisioners]\n"
        f"{command_line.PROVISIONER} = portal_session.kernels.command_line:SessionProvisioner\n"
    )
    temporary = Path(tempfile.mkdtemp(prefix="t"))  # a short path, for sockets
    environ = {
        "PATH": os.environ["PATH"],
        "TMPDIR": str(temporary),
        "HOME": str(home),
        "PYTHONUSERBASE": str(home / ".portal/venv"),
        "PYTHONPATH": f"{package}:{installed}",
        "PORTAL_ENVIRONMENT": "venv",
        "PORTAL_KERNEL_NAME": "python3",
    }
    jobs = Jobs(environ)
    made = list(specs.offered(OFFER))
    for place in specs.write(folder, made):  # the package is not installed here: without -I
        path = folder / "kernels" / place / "kernel.json"
        content = json.loads(path.read_text())
        content["argv"].remove("-I")
        path.write_text(json.dumps(content))
    loop, ready = asyncio.new_event_loop(), threading.Event()
    before = os.environ.get(broker.VARIABLE)
    servers: list[Any] = []

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.call_soon(lambda: (servers.append(broker.serve(jobs, folder)), ready.set()))
        loop.run_forever()

    thread = threading.Thread(target=serve)
    thread.start()
    ready.wait()
    os.environ.pop(broker.VARIABLE, None)
    if before is not None:
        os.environ[broker.VARIABLE] = before
    broker_path = {broker.VARIABLE: str(folder / "broker")}
    yield Session(jobs, {**environ, **broker_path, "PORTAL_KERNEL_SPECS": str(folder)})
    jobs.end()
    loop.call_soon_threadsafe(servers[0].stop)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    shutil.rmtree(temporary)


class Ran(NamedTuple):
    """A cell: its status, stdout, stderr, error, and what it displays, in order."""

    status: str
    printed: str
    warned: str
    error: str
    traceback: str
    shown: list[dict[str, Any]]


class Notebook:
    """A kernel of the session, started as `command_line.SessionProvisioner` starts it."""

    def __init__(self, environ: dict[str, str], spec: str = "python3") -> None:
        env = dict(environ)
        if spec == "python3":
            environment.add_startup(env, spec)
        self._kept: list[dict[str, Any]] = []  # messages for `wait`
        self.manager = KernelManager(kernel_name=spec)
        self.manager.start_kernel(env=env)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def send(self, code: str) -> str:
        return str(self.client.execute(code, allow_stdin=True))

    def until_printed(self, id: str, text: str, seconds: float = 60) -> None:
        """Wait until a cell has printed ``text``; ``wait`` has all of its output nevertheless."""
        printed, deadline = "", time.monotonic() + patience(seconds)
        while text not in printed:
            assert time.monotonic() < deadline, printed
            with contextlib.suppress(queue.Empty):
                message = self.client.get_iopub_msg(timeout=0.1)
                self._kept.append(message)
                if message["parent_header"].get("msg_id") == id:
                    printed += message["content"].get("text", "")

    def wait(self, id: str, answer: str = "", seconds: float = 60) -> Ran:
        printed, error, traceback, shown, deadline = {"stdout": "", "stderr": ""}, "", "", [], 0.0
        deadline = time.monotonic() + patience(seconds)
        while True:
            if answer and self.client.stdin_channel.msg_ready():
                self.client.get_stdin_msg(timeout=1)
                self.client.input(answer)
            assert time.monotonic() < deadline, (printed, error, shown)
            try:
                kept = self._kept
                message = kept.pop(0) if kept else self.client.get_iopub_msg(timeout=0.1)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") != id:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                printed[content["name"]] += content["text"]
            elif kind == "error":
                error = f"{content['ename']}: {content['evalue']}"
                traceback = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(content["traceback"]))
            elif kind in ("display_data", "update_display_data", "execute_result"):
                shown.append({"kind": kind, **content["data"]})
            elif kind == "status" and content["execution_state"] == "idle":
                break
        while (reply := self.client.get_shell_msg(timeout=seconds))["parent_header"][
            "msg_id"
        ] != id:
            pass
        status = reply["content"]["status"]
        return Ran(status, printed["stdout"], printed["stderr"], error, traceback, shown)

    def run(self, code: str, seconds: float = 60) -> Ran:
        return self.wait(self.send(code), seconds=seconds)

    def good(self, code: str) -> Ran:
        """Run a cell that is to succeed."""
        ran = self.run(code)
        assert (ran.status, ran.error) == ("ok", ""), ran
        return ran

    def bad(self, code: str) -> Ran:
        """Run a cell that is to fail."""
        ran = self.run(code)
        assert ran.status == "error", ran
        return ran

    def close(self) -> None:
        self.client.stop_channels()
        if self.manager.is_alive():
            self.manager.shutdown_kernel()
