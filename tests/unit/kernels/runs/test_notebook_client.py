"""Client of a point's kernel: what it reads of a cell, whose kernel is played."""

from __future__ import annotations

import asyncio
from queue import Empty
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from portal_session.runs.execution import notebook_client
from portal_session.runs.execution.notebook_client import PointClient


class Channel:
    """Channel with these messages, each after so many seconds."""

    seconds = 0.0  # of all waits, which is the client's clock

    def __init__(self, *messages: tuple[float, dict[str, Any]]) -> None:
        self._messages = list(messages)

    async def get_msg(self, timeout: float | None = None) -> dict[str, Any]:
        if self._messages and (timeout is None or self._messages[0][0] <= timeout):
            seconds, message = self._messages.pop(0)
            await asyncio.sleep(seconds)
            Channel.seconds += seconds
            return message
        await asyncio.sleep(timeout or 0.0)
        Channel.seconds += timeout or 0.0
        if self._messages:
            seconds, message = self._messages[0]
            self._messages[0] = (seconds - (timeout or 0.0), message)
        raise Empty


def message(kind: str, **content: Any) -> dict[str, Any]:
    return {
        "msg_type": kind,
        "header": {"date": "2026-01-01T00:00:00Z", "msg_type": kind},
        "parent_header": {"msg_id": "7"},
        "content": content,
    }


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client to which 0.1 s without a message are long."""
    monkeypatch.setattr(notebook_client, "time", SimpleNamespace(monotonic=lambda: Channel.seconds))
    monkeypatch.setattr(notebook_client, "_LOOKS", 0.02)
    monkeypatch.setattr(notebook_client, "_QUIET", 0.1)


async def executed(iopub: Channel, reply_after: float = 0.0) -> list[dict[str, Any]]:
    """Outputs of a cell whose reply is there at once, or comes after the messages."""

    async def is_alive() -> bool:
        return True

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")])
    client = PointClient(notebook, None, 10_000, lambda: None, iopub_timeout=1)
    reply = message("execute_reply", status="ok")
    client.kc = SimpleNamespace(
        execute=lambda *_, **__: "7",
        is_alive=is_alive,
        iopub_channel=iopub,
        shell_channel=Channel((reply_after, reply)),
    )
    outputs = client.begin_cell(0)
    assert (await client.execute(0))["status"] == "ok"
    return outputs.as_json()


def test_what_is_read_long_after_the_reply_is_kept() -> None:
    iopub = Channel(
        (0.0, message("stream", name="stdout", text="early\n")),
        (1.2, message("stream", name="stdout", text="late\n")),
        (0.0, message("status", execution_state="idle")),
    )
    (output,) = asyncio.run(executed(iopub))
    assert output["text"] == "early\nlate\n"


@pytest.mark.usefixtures("impatient")
def test_the_lost_end_of_a_cell_is_noted() -> None:
    """A kernel that drops messages may drop the one that says that the cell has ended."""
    iopub = Channel((0.0, message("stream", name="stdout", text="on\n")))
    printed, note = asyncio.run(executed(iopub))
    assert printed["text"] == "on\n"
    assert "Some of this cell's output is missing" in note["text"]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("pauses", "reply_after"), [((0.07, 0.07), 0.0), ((0.3,), 0.01)])
def test_nothing_is_lost_while_messages_come_or_the_cell_runs(
    pauses: tuple[float, ...], reply_after: float
) -> None:
    """Pauses that are long only together, and a long one before the reply."""
    printed = [(seconds, message("stream", name="stdout", text=".")) for seconds in pauses]
    iopub = Channel(*printed, (0.0, message("status", execution_state="idle")))
    (output,) = asyncio.run(executed(iopub, reply_after))
    assert output["text"] == "." * len(pauses)
