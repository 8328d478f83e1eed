"""The patience with a page that went away is not changed by who sets the machine's clock, and the
past of a kernel is written as if this server had followed it."""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from portal_session.notebooks.executions import Execution
from portal_session.notebooks.followed_connection import followed_connection
from portal_session.notebooks.kernel_follower import PAST, PAST_END, KernelFollower
from portal_session.notebooks.unattended import PATIENCE, Unattended
from stepping_clock import SteppingClock


@pytest.mark.parametrize("seconds", [86_400.0, 3600.0, 0.0, -3600.0, -86_400.0])
async def test_outputs_are_written_after_the_patience_and_not_before(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    execution = Execution("1", "page", "cell-0", "code", time.time())
    execution.outputs.take("stream", {"name": "stdout", "text": "first"})
    follower: Any = SimpleNamespace(executions={"1": execution}, clients={"page"})
    KernelFollower.went(follower, "page")
    assert execution.left_at is not None
    app = SimpleNamespace(
        kernel_manager={"kernel": None},
        contents_manager=SimpleNamespace(get=None),
        log=logging.getLogger("test"),
    )
    unattended, written = Unattended(app), list[str]()
    unattended._followers["kernel"] = follower

    async def write(kernel_id: str, executions: list[Execution]) -> bool:
        written.append(kernel_id)
        return True

    unattended._write = write  # type: ignore[method-assign]
    SteppingClock(monkeypatch).step(seconds)
    await unattended._save_kernel("kernel")
    assert written == []
    execution.left_at -= PATIENCE
    await unattended._save_kernel("kernel")
    assert written == ["kernel"]


class Notebooks:
    """Contents of a server: one notebook, last saved at ``saved_at`` (Unix seconds)."""

    def __init__(self, saved_at: float) -> None:
        self.saved_at = saved_at
        cell = {"cell_type": "code", "id": "cell-0", "source": "code", "metadata": {}}
        self.cells = [{**cell, "outputs": [], "execution_count": None}]

    def get(self, path: str, content: bool = True, **_: Any) -> dict[str, Any]:
        model: dict[str, Any] = {"last_modified": datetime.fromtimestamp(self.saved_at, UTC)}
        notebook = {"nbformat": 4, "nbformat_minor": 5, "cells": copy.deepcopy(self.cells)}
        return {**model, "content": notebook} if content else model

    def save(self, model: dict[str, Any], path: str) -> dict[str, Any]:
        self.cells, self.saved_at = model["content"]["cells"], time.time()
        return self.get(path, content=False)

    @property
    def printed(self) -> str:
        return "".join(output["text"] for output in self.cells[0]["outputs"])


def _server_with_a_past(
    saved_at: float, ended: float | None
) -> tuple[Unattended, KernelFollower, Notebooks]:
    """Return a new server, whose kernel has told that a cell ran when the former one was lost, 50
    seconds ago. ``saved_at``, ``ended``: seconds ago."""

    async def list_sessions() -> list[dict[str, Any]]:
        return [{"kernel": {"id": "kernel"}, "type": "notebook", "path": "a.ipynb"}]

    now, notebooks = time.time(), Notebooks(time.time() - saved_at)
    app = SimpleNamespace(
        kernel_manager={"kernel": None},
        contents_manager=notebooks,
        session_manager=SimpleNamespace(list_sessions=list_sessions),
        log=logging.getLogger("test"),
    )
    unattended = Unattended(app)
    follower = KernelFollower(
        None, lambda: None, past_shown=lambda: unattended._past_shown("kernel")
    )
    unattended._followers["kernel"] = follower
    execution = Execution("1", "page", "cell-0", "code", now - 100)
    execution.outputs.take("stream", {"name": "stdout", "text": "all of it"})
    execution.ended = None if ended is None else now - ended
    follower._past["1"] = Execution.restored(execution.state(now - 50))
    return unattended, follower, notebooks


@pytest.mark.parametrize("ended", [None, 70.0, 20.0], ids=["runs", "before", "meanwhile"])
@pytest.mark.parametrize("saved_at", [90.0, 10.0], ids=["saved-before", "saved-blindly"])
async def test_the_past_of_a_kernel_is_written(saved_at: float, ended: float | None) -> None:
    unattended, follower, notebooks = _server_with_a_past(saved_at, ended)
    follower._take_up_past()
    for _ in range(100):
        if notebooks.printed:
            break
        await asyncio.sleep(0.05)
    assert notebooks.printed == "all of it"
    await unattended._rest()


async def test_what_the_page_saved_before_is_left_alone() -> None:
    unattended, follower, notebooks = _server_with_a_past(saved_at=60, ended=70)
    follower._take_up_past()
    for _ in range(100):
        if not follower.executions:
            break
        await asyncio.sleep(0.05)
    assert not follower.left() and notebooks.printed == ""
    await unattended._rest()


async def test_a_notebook_that_is_opened_has_the_past() -> None:
    unattended, follower, notebooks = _server_with_a_past(saved_at=90, ended=None)
    unattended.awaited.expect("a.ipynb")
    opening = asyncio.ensure_future(unattended.before_read("a.ipynb"))
    await asyncio.sleep(0.1)
    assert not opening.done() and notebooks.printed == "", "its kernel is being taken up"
    follower._take_up_past()
    await asyncio.wait_for(opening, 5)
    assert notebooks.printed == "all of it"
    await unattended._rest()


async def test_pages_do_not_get_the_past_itself() -> None:
    sent: list[Any] = []

    class Base:
        def handle_outgoing_message(self, stream: str, message: list[bytes]) -> None:
            sent.append(message)

    connection: Any = followed_connection(Base, SimpleNamespace())()  # type: ignore[arg-type]
    for message in ([b"stream", b"1"], [PAST.encode(), b"2"], [PAST_END.encode(), b"3"]):
        connection.handle_outgoing_message("iopub", message)
    assert sent == [[b"stream", b"1"], [PAST_END.encode(), b"3"]]
