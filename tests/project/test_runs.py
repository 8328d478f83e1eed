"""A run of the suite that is ended leaves nothing: a signal at once, SIGKILL by the next run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import runs
from checkout import PYTEST_INI

ROOT = Path(__file__).resolve().parents[2]
_CONFTEST = """
import subprocess, sys, time, pytest, runs
from pathlib import Path

def pytest_configure(config):
    runs.end_on_signals()
    config.record = runs.RunRecord(Path("records"))

def pytest_unconfigure(config):
    runs.end_descendants()

@pytest.fixture(scope="session")
def server():
    process = subprocess.Popen(["sleep", "300"], start_new_session=True, env=ENVIRONMENT)
    Path("pid").write_text(str(process.pid))
    yield process
    time.sleep(PAUSE)
    process.kill()
    process.wait()
    Path("torn-down").touch()
"""
_TEST = """
import time

def test_waits(server):
    time.sleep(300)
"""


def _started(
    place: Path, *options: str, environment: str = "None", pause: float = 0
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a suite that waits; return its process and the pid of what it started, with that
    ``environment``. ``pause``: seconds that the fixture takes to end it."""
    text = _CONFTEST.replace("ENVIRONMENT", environment).replace("PAUSE", str(pause))
    (place / "conftest.py").write_text(text)
    (place / "test_waits.py").write_text(_TEST)
    (place / "pytest.ini").write_text(PYTEST_INI)
    path = f"{ROOT}{os.pathsep}{ROOT / 'tests/support/suite'}"
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_waits.py"],
        cwd=place,
        env=os.environ | {"PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 60
    while not (place / "pid").exists() or not (place / "pid").read_text():
        assert run.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    return run, int((place / "pid").read_text())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_what_the_run_started(tmp_path: Path, number: signal.Signals) -> None:
    run, server = _started(tmp_path)
    run.send_signal(number)
    run.wait(30)
    assert (tmp_path / "torn-down").exists()
    assert not psutil.pid_exists(server)


def test_a_signal_ends_what_a_slow_worker_started(tmp_path: Path) -> None:
    """pytest-xdist ends a worker whose fixtures take longer than ten seconds to end."""
    run, server = _started(tmp_path, "-n", "1", environment="{}", pause=300)
    run.terminate()
    run.wait(60)
    assert not psutil.pid_exists(server)


def test_the_next_run_ends_what_a_killed_one_left(tmp_path: Path) -> None:
    run, server = _started(tmp_path)
    records = tmp_path / "records"
    assert runs.end_leftovers(records) == [] and psutil.pid_exists(server)  # it lives
    run.kill()
    run.wait()
    assert psutil.pid_exists(server)
    assert len(runs.end_leftovers(records)) == 1
    end = time.monotonic() + 10  # init collects it
    while psutil.pid_exists(server) and psutil.Process(server).status() != "zombie":
        assert time.monotonic() < end
        time.sleep(0.05)
    assert list(records.iterdir()) == []


def test_a_child_ends_with_its_parent() -> None:
    """As demos do: SIGKILL of the run that started one ends it too."""
    program = (
        "import runs, subprocess, time; "
        "child = subprocess.Popen(['sleep', '300'], preexec_fn=runs.ends_with_parent, "
        "start_new_session=True, stdout=subprocess.DEVNULL); "
        "print(child.pid, flush=True); time.sleep(300)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests/support/suite'}"},
        stdout=subprocess.PIPE,
    )
    assert parent.stdout
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    end = time.monotonic() + 10
    while psutil.pid_exists(child) and psutil.Process(child).status() != "zombie":
        assert time.monotonic() < end
        time.sleep(0.05)
