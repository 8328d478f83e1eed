"""A rank's script that is asked where it is: it answers, and no call of a library ends by that."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from machine import patience
from portal_session.runs.ranks.layout import Layout
from portal_session.runs.ranks.stall import VARIABLE, Activity
from portal_session.runs.ranks.team import STACK, STACKS, TRACE, Team

LIBRARY = Path(__file__).resolve().parents[3] / "kernels/portal_session/runs/library"
# As PyTorch's ranks do between two tries to reach rank 0, which fail if that ends early.
SLEEPS = """
import ctypes
def rendezvous():
    return ctypes.CDLL(None).sleep(3)
print("begins", flush=True)
print("left", rendezvous())
"""
# A call that lets no other thread run for seconds.
HOLDS = """
def spin(number):
    return number ** 20_000_000
print("begins", flush=True)
spin(3)
"""


def asked(place: Path, text: str) -> tuple[subprocess.Popen[str], Callable[[], Any]]:
    """Start a script as a rank does; return it, and what asks it for its place."""
    team = Team(Layout(place, 0, 2, 0, 2, "gpu01"))
    source = place / "train.py"
    source.write_text(text)
    named = {"PORTAL_SOURCE": str(source), "PORTAL_FROZEN_SOURCE": str(source)}
    process = subprocess.Popen(
        [sys.executable, "-m", "portal_main"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **named, "PYTHONPATH": str(LIBRARY), VARIABLE: str(team.path(TRACE))},
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "begins\n"
    activity = Activity(team)

    def ask() -> Any:
        team.write_for_all(STACKS, {"number": 1})
        activity.about(process.pid)
        return team.read(STACK, 0)

    return process, ask


def test_a_call_that_sleeps_goes_on(tmp_path: Path) -> None:
    process, ask = asked(tmp_path, SLEEPS)
    with process:
        time.sleep(0.5)  # until it sleeps
        answer = ask()
        assert answer["frame"] == [str(tmp_path / "train.py"), 4, "rendezvous"]
        assert process.communicate(timeout=patience(30))[0] == "left 0\n"


def test_a_call_that_lets_no_thread_run_is_found(tmp_path: Path) -> None:
    process, ask = asked(tmp_path, HOLDS)
    try:
        assert ask()["frame"] == [str(tmp_path / "train.py"), 3, "spin"]
    finally:
        process.kill()
        process.communicate()
