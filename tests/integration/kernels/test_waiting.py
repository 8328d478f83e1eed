"""Why a GPU waits, with programs that really compute, read a throttled folder or wait for a server;
and the question to a real session's server."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from portal_session.waiting.answer import Answer, answer_of
from portal_session.waiting.observation import Observer
from session_server import a_server, make_python, wait_for

_CGROUPS = Path("/sys/fs/cgroup")
_READ = """
import os, random, sys
folder, *cgroup = sys.argv[1:]
for path in cgroup:
    open(path, "w").write(str(os.getpid()))
files = [f"{folder}/{number % 5}/{number}.jpg" for number in range(200)]
while True:
    file = os.open(random.choice(files), os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.read(file, 1 << 20)
    os.close(file)
"""
_FETCH = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
while connection.recv(1 << 16):
    pass
"""
Run = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def run() -> Iterator[Run]:
    """Starts a Python program; it ends with the test."""
    with contextlib.ExitStack() as stack:

        def start(code: str, *arguments: Any, **env: str) -> subprocess.Popen[bytes]:
            argv = [sys.executable, "-c", code, *map(str, arguments)]
            process = subprocess.Popen(argv, env={**os.environ, **env})
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        yield start


def why(*processes: subprocess.Popen[bytes], cpus: int = 4, home: str = "") -> Answer:
    observer = Observer(lambda: [process.pid for process in processes], list, cpus)
    return answer_of(observer.observe(3), home)


def until(cause: str, *processes: subprocess.Popen[bytes], **more: Any) -> Answer:
    """Ask until the programs have started and this is the cause."""
    answers: list[Answer] = []

    def asked() -> bool:
        answers.append(why(*processes, **more))
        return answers[-1].cause == cause

    wait_for(asked, lambda: str(answers[-2:]))
    return answers[-1]


@pytest.fixture
def throttled(tmp_path: Path) -> Iterator[str]:
    """File for the number of a process, which then reads 200 kB a second from this disk."""
    device = Path(
        f"/sys/dev/block/{os.major(tmp_path.stat().st_dev)}:{os.minor(tmp_path.stat().st_dev)}"
    )
    if os.geteuid() != 0 or not device.exists():
        pytest.skip("throttling a disk takes root and a disk")
    whole = device.resolve()
    whole = whole.parent if (whole / "partition").exists() else whole
    number = (whole / "dev").read_text().strip()
    name = f"portal-test-{os.getpid()}"
    for group, file, line in (
        (_CGROUPS / "blkio" / name, "blkio.throttle.read_bps_device", f"{number} 200000"),
        (_CGROUPS / name, "io.max", f"{number} rbps=200000"),
    ):
        if not group.parent.joinpath("cgroup.procs").exists():
            continue
        try:
            group.mkdir()
            (group / file).write_text(line)
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
            continue
        yield str(group / "cgroup.procs")
        wait_for(lambda group=group: not (group / "cgroup.procs").read_text().strip())
        group.rmdir()
        return
    pytest.skip("no cgroup here throttles a disk")


def test_a_throttled_folder_of_small_files_is_named(
    run: Run, throttled: str, tmp_path: Path
) -> None:
    folder = tmp_path / "data/train"
    for number in range(200):
        path = folder / str(number % 5) / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(12_000))
    os.sync()
    # The processes leave the cgroup, by their end, before it is removed.
    readers = [run(_READ, folder, throttled) for _ in range(3)]
    try:
        answer = until("reads", *readers, home=str(tmp_path))
    finally:
        for reader in readers:
            reader.kill()
    assert (answer.folder, answer.pack) == (str(folder), True)
    assert answer.sentence.startswith("Your 3 processes (python")
    assert "waiting for reads from ~/data/train" in answer.sentence
    assert "12 kB" in answer.advice


def test_a_slow_server_is_named(run: Run) -> None:
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        client = run(_FETCH, port)
        connection, _ = listening.accept()
    with connection:

        def drip() -> None:
            while not over.is_set():
                connection.sendall(b"x" * 1000)
                time.sleep(0.05)

        sender = threading.Thread(target=drip)
        sender.start()
        try:
            answer = until("network", client)
        finally:
            over.set()
            sender.join()
    assert f"connections to 127.0.0.1:{port} (" in answer.sentence
    assert "kB/s received" in answer.sentence


def test_what_computes_and_what_sleeps(run: Run) -> None:
    busy = [run("while True: pass") for _ in range(4)]
    answer = until("cpu", *busy, cpus=1)
    assert "of 1 CPU in use" in answer.sentence
    asleep = run("import time; time.sleep(600)")
    assert until("idle", asleep).advice.startswith("Ask while your training runs")


def test_a_session_answers_its_page_and_its_terminal(
    run: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    python = make_python(tmp_path_factory.mktemp("python") / "venv")
    job = {"SLURM_JOB_ID": f"{os.getpid()}", "PORTAL_SERVICE_URL": "http://127.0.0.1:9/p/"}
    with a_server(python, JUPYTERHUB_API_TOKEN="t", SLURM_CPUS_ON_NODE="1", **job) as server:
        asked = server.client.post("portal/waiting", json={"seconds": 2})
        assert asked.status_code == 200, asked.text
        assert asked.json()["cause"] == "idle"
        # As if a terminal had left it behind.
        busy = run("while True: pass", **job)
        answer = wait_for(
            lambda: (
                said
                if (said := server.client.post("portal/waiting", json={"seconds": 2}).json())[
                    "cause"
                ]
                == "cpu"
                else None
            )
        )
        assert f"(process {busy.pid})" in answer["sentence"]
        for wrong in (0, 500, "5", True, None):
            refused = server.client.post("portal/waiting", json={"seconds": wrong})
            assert (refused.status_code, refused.json()["field"]) == (400, "seconds")
        (broker,) = (server.home / "t").glob("portal-kernels-*/broker")

        def said_in_terminal() -> str:
            done = subprocess.run(
                [python, "-m", "portal_session.waiting.command", "--seconds", "2"],
                env={"PATH": os.environ["PATH"], "PORTAL_KERNEL_BROKER": str(broker)},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            return " ".join(done.stdout.split())

        # On a busy machine, the process may have had too little of its CPU.
        assert wait_for(lambda: f"(process {busy.pid})" in said_in_terminal())
