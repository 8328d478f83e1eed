"""What a session's server hands over to the next one: pages that save, terminals, busy kernels."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from portal_session.handover import (
    MOST,
    RECENT,
    OpenPages,
    busy,
    open_again,
    open_terminals,
    well_formed,
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_without_an_open_page_nobody_waits(clock: Clock) -> None:
    pages = OpenPages(clock)
    assert await asyncio.wait_for(pages.save(60), 5)
    pages.seen("closed")
    clock.now += RECENT + 1
    assert await asyncio.wait_for(pages.save(60), 5)


async def test_all_open_pages_save_before_it_goes_on(clock: Clock) -> None:
    pages = OpenPages(clock)
    pages.seen("one")
    pages.seen("two")
    assert not pages.saving
    waiting = asyncio.ensure_future(pages.save(20))
    await asyncio.sleep(0)
    assert pages.saving
    pages.has_saved("one")
    await asyncio.sleep(0.01)
    assert not waiting.done()
    pages.has_saved("two")
    assert await asyncio.wait_for(waiting, 5)


async def test_a_page_that_does_not_answer_holds_it_up_no_longer_than_said() -> None:
    pages = OpenPages()
    pages.seen("silent")
    assert not await asyncio.wait_for(pages.save(0.05), 5)
    # What it said for an earlier move does not count for the next.
    pages.has_saved("silent")
    assert not await asyncio.wait_for(pages.save(0.05), 5)


async def test_pages_are_told_when_no_move_came_of_it(clock: Clock) -> None:
    pages = OpenPages(clock)
    await pages.save(0)
    assert pages.saving
    clock.now += 60
    assert not pages.saving


def test_a_flood_of_page_names_is_bounded(clock: Clock) -> None:
    pages = OpenPages(clock)
    for number in range(10 * MOST):
        pages.seen(f"page-{number}")
    assert len(pages.open()) == MOST


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A process whose working directory is a folder; its id and the folder."""
    place = tmp_path / "with space"
    place.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], cwd=place, stdin=subprocess.PIPE
    ) as process:
        yield process.pid, place
        process.kill()


class Manager:
    """As jupyter_server_terminals' TerminalManager, as far as this goes."""

    def __init__(self, terminals: dict[str, Any]) -> None:
        self.terminals = terminals
        self.made: dict[str, str] = {}

    def create(self, name: str, cwd: str) -> None:
        self.made[name] = cwd
        self.terminals[name] = None


def test_terminals_are_told_with_their_directories(shell: tuple[int, Path]) -> None:
    pid, place = shell
    manager = Manager(
        {
            "1": SimpleNamespace(ptyproc=SimpleNamespace(pid=pid)),
            "2": SimpleNamespace(ptyproc=SimpleNamespace(pid=2**22 + 1)),  # none has that id
        }
    )
    assert open_terminals(manager) == [
        {"name": "1", "cwd": str(place)},
        {"name": "2", "cwd": ""},
    ]
    assert open_terminals(None) == []


def test_terminals_are_opened_again_under_their_names(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o600)
    wanted = [
        {"name": "1", "cwd": str(tmp_path)},
        {"name": "2", "cwd": str(tmp_path / "gone")},
        {"name": "3", "cwd": f"{tmp_path} (deleted)"},
        {"name": "4", "cwd": "relative"},
        {"name": "5", "cwd": 5},
        {"name": "6", "cwd": "/\0"},
        {"name": "../7", "cwd": str(tmp_path)},
        {"name": "8" * 65, "cwd": str(tmp_path)},
        {"name": "<b>", "cwd": str(tmp_path)},
        {"cwd": str(tmp_path)},
        "9",
        None,
    ]
    if os.geteuid() != 0:
        wanted.append({"name": "10", "cwd": str(closed)})
    found = well_formed(wanted, Path("/home/ada"))
    assert found.pop("1") == str(tmp_path)
    assert set(found.values()) == {"/home/ada"}
    assert {"2", "3", "4", "5", "6"} <= set(found) <= {"2", "3", "4", "5", "6", "10"}

    manager = Manager({"2": None})
    assert open_again(manager, {"1": "/a", "2": "/b"}) == ["1"]
    assert manager.made == {"1": "/a"}
    assert open_again(manager, {"1": "/a"}) == []  # asked twice, done once
    assert open_again(None, {"1": "/a"}) == []


def test_no_more_terminals_than_one_can_have() -> None:
    assert len(well_formed([{"name": str(n), "cwd": "/"} for n in range(1000)], Path("/"))) == MOST


def test_busy_kernels_go_by_their_notebooks() -> None:
    sessions = [
        {"path": "thesis/train.ipynb", "name": "", "kernel": {"id": "a" * 36}},
        {"path": "", "name": "console", "kernel": {"id": "b" * 36}},
        {"path": "idle.ipynb", "name": "", "kernel": {"id": "c" * 36}},
    ]
    states = {"a": "busy", "b": "busy", "c": "idle", "d": "busy", "e": "starting"}
    kernels = [
        {"id": key * 36, "name": "python3", "execution_state": state}
        for key, state in states.items()
    ]
    assert busy(sessions, kernels) == ["thesis/train.ipynb", "console", "python3 (dddddddd)"]
