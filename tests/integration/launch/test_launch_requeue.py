"""The job script of a point that may go on after its time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from machine import patience

from portal.launch.container import session_script

SCONTROL = """#!/bin/bash
echo "$@" >> "${0%/*}/asked"
[ "$(wc -l < "${0%/*}/asked")" -gt "$(cat "${0%/*}/away")" ]
"""
# Slurm ends the job when it has taken the request; here, nothing does.
PAUSE = '#!/bin/bash\n[ "$1" = 5 ] || [ "$1" = 60 ] || exec /bin/sleep "$@"\n'


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Folder with a played scontrol, which fails ``away`` times, and a sleep that is short."""
    for name, text in (("scontrol", SCONTROL), ("sleep", PAUSE)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "away").write_text("0")
    return tmp_path


def begin(programs: Path, *argv: str, resumes: str = "3") -> subprocess.Popen[str]:
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": "/nonexistent"}
    env |= {"PORTAL_KIND": "venv", "SLURM_ARRAY_JOB_ID": "123", "SLURM_ARRAY_TASK_ID": "4"}
    if resumes:
        env["PORTAL_RESUMES"] = resumes
    return subprocess.Popen(
        [str(session_script()), *argv], env=env, stdout=subprocess.PIPE, text=True
    )


def asked(programs: Path) -> list[str]:
    path = programs / "asked"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize(("code", "times"), [(85, 1), (0, 0), (1, 0), (143, 0)])
def test_only_a_saved_point_is_started_again(programs: Path, code: int, times: int) -> None:
    process = begin(programs, "/bin/sh", "-c", f"exit {code}")
    assert process.wait(60) == code
    assert asked(programs) == ["requeue 123_4"] * times


def test_others_are_not(programs: Path) -> None:
    assert begin(programs, "/bin/sh", "-c", "exit 85", resumes="").wait(60) == 85
    assert asked(programs) == []


@pytest.mark.parametrize(("away", "times"), [(3, 4), (99, 12)])
def test_a_controller_that_is_away_is_asked_again(programs: Path, away: int, times: int) -> None:
    (programs / "away").write_text(str(away))
    assert begin(programs, "/bin/sh", "-c", "exit 85").wait(60) == 85
    assert asked(programs) == ["requeue 123_4"] * times


def test_the_signal_reaches_a_program_that_was_not_ready(programs: Path) -> None:
    """It survives the first one, and hears of it again."""
    ready = programs / "ready"
    program = (
        f"import pathlib, signal, sys, time; pathlib.Path({str(programs)!r}, 'begun').touch();"
        "time.sleep(2); signal.signal(signal.SIGUSR1, lambda *_: sys.exit(85));"
        f"pathlib.Path({str(ready)!r}).touch(); time.sleep(50); sys.exit(1)"
    )
    process = begin(programs, "/usr/bin/python3", "-c", program)
    deadline = time.monotonic() + patience(60)
    while not (programs / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not ready.exists()
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 85
    assert ready.exists() and asked(programs) == ["requeue 123_4"]


def test_a_stop_ends_the_program_in_time(programs: Path) -> None:
    text = "trap 'exit 143' TERM; touch {}; while :; do /bin/sleep 0.1; done"
    process = begin(programs, "/bin/bash", "-c", text.format(programs / "ready"))
    deadline = time.monotonic() + patience(60)
    while not (programs / "ready").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    assert asked(programs) == []
