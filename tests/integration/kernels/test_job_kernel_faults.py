"""Faults between a relay and its kernel's job: strangers, cuts, starters that never come."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from job_kernel_site import Notebook, Session, job_kernel_session
from machine import patience
from portal_session.job_kernels import record as records
from portal_session.job_kernels.wire.keys import context, make_keys
from run_site import wait_until

SPEC = "job-venv-python3-t4"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session without GPUs."""
    yield from job_kernel_session(tmp_path_factory)


@pytest.fixture
def kernel(session: Session, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    """A kernel that runs. After the test neither its job nor its record is left."""
    monkeypatch.setenv("JUPYTER_PATH", session.environ["PORTAL_KERNEL_SPECS"])
    kernel = Notebook(session.environ, SPEC)
    yield kernel
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel()
    _wait_until_nothing_is_left(session)


def _wait_until_nothing_is_left(session: Session) -> None:
    deadline = time.monotonic() + patience(20)
    while session.jobs.living or records.ids(session.home):
        assert time.monotonic() < deadline, "a job or a record is left"
        time.sleep(0.1)


def _record(session: Session) -> records.Record:
    (id,) = records.ids(session.home)
    return records.read(id, session.home)


async def _greeted(record: records.Record, keys: tuple[str, str], words: bytes) -> bytes:
    """Connect to the relay with ``keys`` and send ``words``; return the first line of the answer,
    empty if the connection is cut."""
    tls = context(*keys, server=False)
    try:
        reader, writer = await asyncio.open_connection(record.host, record.port, ssl=tls)
        writer.write(words)
        return await asyncio.wait_for(reader.readline(), 15)
    except OSError:
        return b""


def _greeting(**more: Any) -> bytes:
    greeting = {"starter": "0" * 64, "life": 1, "received": 0, "first": 1, **more}
    return json.dumps(greeting).encode() + b"\n"


def test_a_stolen_record_lets_nobody_in_beside_the_starter(
    session: Session,
    kernel: Notebook,
) -> None:
    kernel.good("x = 41")
    record = _record(session)
    assert len(record.starter) == 64, "the secret itself is in the starter's memory only"
    own = (record.certificate, record.private_key)
    for secret in ("0" * 64, record.starter, ""):
        answer = asyncio.run(_greeted(record, own, _greeting(starter=secret)))
        assert json.loads(answer) == {"refused": "This kernel has another starter."}
    assert kernel.good("print(x + 1)").printed == "42\n"


def test_a_job_that_is_cancelled_while_it_ends_has_not_failed(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Slurm does it: scancel signals a starter that ends already, at any moment of its end."""
    monkeypatch.setenv("JUPYTER_PATH", session.environ["PORTAL_KERNEL_SPECS"])
    kernel = Notebook(session.environ, SPEC)
    kernel.good("1")  # the relay answers before the job's program has begun
    job = session.jobs.running[_record(session).id]
    kernel.client.stop_channels()
    ending = threading.Thread(target=kernel.manager.shutdown_kernel)
    ending.start()
    while job.poll() is None:
        job.terminate()
        time.sleep(0.001)
    ending.join()
    assert job.returncode == 0
    _wait_until_nothing_is_left(session)


def test_a_second_job_of_a_kernel_ends_at_once(session: Session, kernel: Notebook) -> None:
    """As one that Slurm has begun again while the first one lives."""
    kernel.good("x = 41")
    named = json.dumps({"id": _record(session).id, "name": "python3"})
    done = subprocess.run(
        [sys.executable, "-m", "portal_session.job_kernels.starter"],
        env={**session.environ, "PORTAL_KERNEL": named},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert "Another job runs this kernel: this job ends." in done.stdout, done
    assert kernel.good("print(x + 1)").printed == "42\n"


@pytest.mark.parametrize(
    "words",
    [b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b"{}\n", b"\xff" * 100 + b"\n", _greeting(life="x")],
    ids=["http", "list", "empty", "bytes", "types"],
)
def test_whoever_says_something_else_is_cut(
    session: Session,
    kernel: Notebook,
    words: bytes,
) -> None:
    kernel.good("x = 41")
    record = _record(session)
    own = (record.certificate, record.private_key)
    assert asyncio.run(_greeted(record, own, words)) == b""
    assert asyncio.run(_greeted(record, make_keys(), _greeting())) == b"", "other keys"
    assert kernel.good("print(x + 1)").printed == "42\n"


class Line:
    """Line to a port of this machine, on ``port``, until it is cut. While it ``loses``, nothing
    arrives at either end, and neither sees that."""

    def __init__(self, to: int) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._ends: list[socket.socket] = []
        self.loses = False
        threading.Thread(target=self._accept, args=(to,), daemon=True).start()

    def _accept(self, to: int) -> None:
        near, _ = self._listening.accept()
        far = socket.create_connection(("127.0.0.1", to))
        self._ends = [near, far]
        for source, target in ((near, far), (far, near)):
            threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(65536):
                if not self.loses:
                    target.sendall(part)

    def cut(self) -> int:
        """Cut the line; return the number of connections that it had."""
        self._listening.close()
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        return len(self._ends) // 2


def test_a_cut_loses_nothing(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_PATH", session.environ["PORTAL_KERNEL_SPECS"])
    session.jobs.held = True
    kernel = Notebook(session.environ, SPEC)
    deadline = time.monotonic() + patience(20)
    while not (session.jobs.waiting and _record(session).submitted):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    line = Line(_record(session).port)
    records.write(_record(session).but(port=line.port), session.home)
    session.jobs.give()
    running = kernel.send(
        "import time\nfor number in range(60):\n    print(number)\n    time.sleep(0.1)"
    )
    kernel.until_printed(running, "10\n")
    line.loses = True
    time.sleep(1.5)
    assert line.cut() == 1
    ran = kernel.wait(running, seconds=60)
    assert ran.printed.split() == [str(number) for number in range(60)]
    assert kernel.good("print('on')").printed == "on\n"
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel()


PRINTS = """
import pathlib
for line in range(20_000):
    print("line", line, flush=True)
    if line == 1_000:
        pathlib.Path({path!r}).touch()
"""


def test_a_reader_that_is_away_loses_no_line(
    session: Session, kernel: Notebook, tmp_path: Path
) -> None:
    """The kernel waits for its reader in the job, which a busy node may let wait itself."""
    begun = tmp_path / "prints"
    running = kernel.send(PRINTS.format(path=str(begun)))
    wait_until(begun.exists)
    (starter,) = [job for job in session.jobs.running.values() if job.poll() is None]
    starter.send_signal(signal.SIGSTOP)
    (process,) = psutil.Process(starter.pid).children()
    wait_until(lambda: process.cpu_percent(0.2) < 5)  # it has printed all, or waits
    starter.send_signal(signal.SIGCONT)
    ran = kernel.wait(running)
    assert ran.printed == "".join(f"line {line}\n" for line in range(20_000))


def test_a_job_whose_session_stays_away_ends(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_PATH", session.environ["PORTAL_KERNEL_SPECS"])
    monkeypatch.setitem(session.jobs._environ, "PORTAL_KERNEL_PATIENCE", "4")
    kernel = Notebook(session.environ, SPEC)
    kernel.good("x = 1")
    relay = int(_record(session).relay.partition(":")[2])
    os.kill(relay, signal.SIGKILL)
    time.sleep(2)
    assert session.jobs.living == 1, "it waits for the session"
    deadline = time.monotonic() + patience(20)
    while session.jobs.living:
        assert time.monotonic() < deadline, "the job goes on"
        time.sleep(0.2)
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=True)
    for id in records.ids(session.home):
        records.remove(id, session.home)


def test_any_client_of_jupyter_runs_a_notebook_in_a_job(session: Session, tmp_path: Path) -> None:
    code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    cell = {"cell_type": "code", "metadata": {}, "source": code, "outputs": []}
    notebook = {"cells": [{**cell, "execution_count": None}], "metadata": {}}
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps({**notebook, "nbformat": 4, "nbformat_minor": 4}))
    environ = {**session.environ, "JUPYTER_PATH": session.environ["PORTAL_KERNEL_SPECS"]}
    argv = [sys.executable, "-m", "jupyter", "execute", "--inplace", f"--kernel_name={SPEC}"]
    done = subprocess.run([*argv, str(path)], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outputs = json.loads(path.read_text())["cells"][0]["outputs"]
    assert "".join(line for output in outputs for line in output["text"]) == "7\n"  # the job's
    _wait_until_nothing_is_left(session)


def test_a_starter_that_never_comes_is_waited_for_and_can_be_cancelled(
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JUPYTER_PATH", session.environ["PORTAL_KERNEL_SPECS"])
    session.jobs.held = True
    kernel = Notebook(session.environ, SPEC)
    running = kernel.send("print(1)")
    time.sleep(1)
    kernel.manager.interrupt_kernel()
    ran = kernel.wait(running)
    assert (ran.status, ran.error) == (
        "error",
        "KeyboardInterrupt: Cancelled while the kernel was waiting.",
    )
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel()
    _wait_until_nothing_is_left(session)
    session.jobs.held = False


def test_a_job_that_ends_is_told_in_the_cell_and_is_not_submitted_again(
    session: Session,
    kernel: Notebook,
) -> None:
    submitted = len(session.jobs.asked)
    running = kernel.send("import time; time.sleep(60)")
    time.sleep(2)
    for job in session.jobs.running.values():
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
    ran = kernel.wait(running)
    assert "The kernel's job was cancelled. Restart the kernel" in ran.error
    time.sleep(5)
    assert len(session.jobs.asked) == submitted
