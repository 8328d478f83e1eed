"""The demo's smaller parts: how processes are recognised, ports, homes, and real GPUs' nodes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import a_home
from machine import patience

from portal.demo.daemons.gpus import Gpus
from portal.demo.daemons.ports import Ports, free
from portal.demo.daemons.process import MARK, Daemon, end_all, leftovers, start_time
from portal.demo.daemons.slurm import PrivateSlurm
from portal.demo.home import Home
from portal.demo.people import People
from portal.errors import ConfigurationError, Unavailable
from portal.paths import data_path


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


def test_a_pid_that_another_process_has_now_is_left_alone(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    file = tmp_path / "munged.process"
    file.write_text(f"{sleeper.pid} 1\n")
    assert leftovers(tmp_path, tmp_path) == []
    file.write_text(f"{sleeper.pid} {start_time(sleeper.pid)}\n")
    assert leftovers(tmp_path, tmp_path) == [sleeper.pid]


def test_marked_processes_and_their_children_are_found(tmp_path: Path) -> None:
    # The child has no mark; its parent has.
    parent = subprocess.Popen(
        ["sh", "-c", f"env -u {MARK} sleep 1000 & wait"], env={**os.environ, MARK: str(tmp_path)}
    )
    try:
        end = time.monotonic() + patience(120)
        while len(found := leftovers(tmp_path, tmp_path)) < 2:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert parent.pid in found
        other = tmp_path / "another"
        assert leftovers(other, other) == []
    finally:
        for pid in (*leftovers(tmp_path, tmp_path), parent.pid):
            os.kill(pid, signal.SIGKILL)
        parent.wait()


def test_what_ignores_sigterm_is_killed() -> None:
    ignore = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True)"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{ignore}; time.sleep(1000)"], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    end_all(lambda: [process.pid] if process.poll() is None else [], timeout=0.5)
    assert process.wait(10) == -signal.SIGKILL


def test_a_daemon_that_ends_at_its_start_says_why(tmp_path: Path) -> None:
    words = ["sh", "-c", "echo no such key; exit 3"]
    daemon = Daemon(
        "x", words, run=tmp_path, log=tmp_path, env={"PATH": "/bin"}, ready=lambda: False
    )
    with pytest.raises(Unavailable, match="no such key"):
        daemon.start()


@pytest.mark.parametrize("nice", [0, 5])
def test_a_daemon_is_preferred_where_the_kernel_can(tmp_path: Path, nice: int) -> None:
    told = tmp_path / "child"
    script = (
        "setsid sleep 600 & child=$!; "
        'until [ "$(cut -d" " -f6 /proc/$child/stat)" = $child ]; do sleep 0.05; done; '
        f"echo $child >{told}; wait"
    )
    daemon = Daemon(
        "x",
        ["sh", "-c", script],
        run=tmp_path,
        log=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        ready=lambda: told.exists() and bool(told.read_text()),
        nice=nice,
    )
    daemon.start()
    child = int(told.read_text())
    try:
        assert daemon.process is not None
        for pid in (daemon.process.pid, child):  # the child has a session of its own
            said = ""
            with contextlib.suppress(FileNotFoundError):  # CONFIG_SCHED_AUTOGROUP
                said = Path(f"/proc/{pid}/autogroup").read_text()
            if said:  # empty where it is switched off
                assert said.endswith(f" nice {nice}\n")
    finally:
        os.kill(child, signal.SIGKILL)
        daemon.kill()


def test_ports_are_remembered_while_they_are_free(tmp_path: Path) -> None:
    ports = Ports(tmp_path / "ports.json")
    ports.pick("a", "b")
    first = (ports["a"], ports["b"])
    again = Ports(tmp_path / "ports.json")
    again.pick("a", "b")
    assert (again["a"], again["b"]) == first and first[0] != first[1]
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", first[0]))
        taken.listen()
        assert not free(first[0])
        again.pick("a", "b")
        assert again["a"] != first[0] and again["b"] == first[1]


def test_a_home_that_others_cannot_enter_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    home = Home(closed / "home", tmp_path / "cache")
    with pytest.raises(ConfigurationError, match="cannot enter"):
        home.make(shared=True)


def test_real_gpus_are_one_node_with_all_of_them() -> None:
    """The nodes-nvidia.conf form on a real Slurm, with harmless devices in the GPUs' place."""
    deploy = data_path("deploy")
    with a_home() as place:
        home = Home(place, place)
        home.make(shared=False)
        people = People.read(deploy / "demo" / "people.toml")
        slurm = PrivateSlurm(
            home, people, Ports(home.demo / "ports.json"), deploy, real_accounts=False
        )
        slurm.gpus = Gpus(("/dev/null", "/dev/zero"), "h200")
        assert not slurm.gpus.simulated
        slurm.prepare()
        try:
            slurm.start(lambda words: None)
            nodes = slurm.client("sinfo", "-h", "-N", "-o", "%N %G").stdout.split("\n")
            assert "gpu01 gpu:h200:2" in nodes and "cpu02 (null)" in nodes
            out = home.demo / "out"

            def seen(*options: str) -> str:
                """Return the GPUs that a job and its step see."""
                show = "echo ${CUDA_VISIBLE_DEVICES-unset}"
                wrap = f"--wrap={show}; srun sh -c '{show}'"
                done = slurm.client("sbatch", "--wait", f"--output={out}", *options, wrap)
                assert done.returncode == 0, done.stderr
                return out.read_text()

            assert seen("--gpus=h200:2") == "0,1\n0,1\n"
            # Without this, CUDA shows a job without GPUs all of the machine's.
            assert seen("--partition=cpu") == "\n\n"
        finally:
            slurm.stop()
        assert leftovers(home.root, home.run) == []


def test_this_machines_gpus() -> None:
    if not list(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("no NVIDIA GPU here")
    gpus = Gpus.of_this_machine()
    assert not gpus.simulated and gpus.kind != "nvidia"
