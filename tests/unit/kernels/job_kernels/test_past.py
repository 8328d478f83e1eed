"""What a kernel ran is remembered in its job, from the messages that pass."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from jupyter_client.session import Session
from portal_session.job_kernels.job.past import Past
from portal_session.job_kernels.wire.messages import DELIMITER, Signed
from portal_session.notebooks import executions
from portal_session.notebooks.executions import UNNOTICED, Execution

KERNEL = Signed("kernels")
KERNELS = Session(key=b"kernels")  # of a client, as Jupyter has it


class Kernel:
    """A kernel, of which the past hears."""

    def __init__(self) -> None:
        self.past = Past()

    def ask(self, code: str, cell: str | None = "cell-0", **more: Any) -> dict[str, Any]:
        """Run a cell; return the message's header."""
        metadata = {"cellId": cell} if cell else {}
        content = {"code": code, "silent": False, **more}
        message = KERNELS.msg("execute_request", content, metadata=metadata)
        self.past.asked(KERNELS.serialize(message))
        return dict(message["header"])

    def say(self, kind: str, header: dict[str, Any], **content: Any) -> None:
        """Broadcast a message that belongs to a cell."""
        message = KERNELS.msg(kind, content, parent={"header": header})
        self.past.take([kind.encode(), *KERNELS.serialize(message)])

    def print(self, header: dict[str, Any], text: str) -> None:
        self.say("stream", header, name="stdout", text=text)

    def end(self, header: dict[str, Any]) -> None:
        self.say("status", header, execution_state="idle")

    def answers(self) -> list[Execution]:
        """Return what a new server learns."""
        states = json.loads(json.dumps(list(self.past.states())))
        return [Execution.restored(state) for state in states]


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


def _texts(told: list[Execution]) -> list[str]:
    return ["".join(item["text"] for item in each.outputs.as_json()) for each in told]


def test_cells_are_told_with_their_outputs_in_order(kernel: Kernel) -> None:
    first, second = kernel.ask("a"), kernel.ask("b", "cell-1")
    kernel.say("execute_input", first, execution_count=3)
    kernel.print(first, "1\n")
    kernel.end(first)
    kernel.print(first, "after its end\n")
    kernel.print(second, "2\n")
    ended, runs = kernel.answers()
    assert (ended.id, ended.cell, ended.code) == (first["msg_id"], "cell-0", "a")
    assert ended.client == first["session"]
    assert (ended.outputs.execution_count, ended.ended is None) == (3, False)
    assert (runs.cell, runs.ended) == ("cell-1", None)
    assert _texts([ended, runs]) == ["1\n", "2\n"]


def test_what_is_no_cell_is_not_remembered(kernel: Kernel) -> None:
    kernel.ask("a", cell=None)
    kernel.ask("b", silent=True)
    kernel.past.asked(KERNEL.question("kernel_info_request"))
    kernel.past.asked(KERNEL.question("execute_request"))
    assert kernel.answers() == []


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b"x"],
        [DELIMITER],
        [DELIMITER, b"", b"{", b"{}", b"{}", b"{}"],
        [DELIMITER, b"", b'"execute_request"', b"[]", b"[]", b"[]"],
        [DELIMITER, b"", b'{"msg_type": "stream"}', b"5", b"{}", b"{}"],
        [DELIMITER, b"", b"[" * 100_000, b"{}", b"{}", b"{}"],
    ],
)
def test_what_cannot_be_read_is_left_out(kernel: Kernel, frames: list[bytes]) -> None:
    header = kernel.ask("a")
    kernel.past.asked(frames)
    kernel.past.take(frames)
    kernel.say("stream", header, name="stdout", text=5)
    kernel.print(header, "good")
    assert _texts(kernel.answers()) == ["good"]


def test_a_kernel_that_dies_says_why_in_the_cell(kernel: Kernel) -> None:
    ended, running = kernel.ask("a"), kernel.ask("b", "cell-1")
    kernel.end(ended)
    kernel.print(running, "1\n")
    kernel.past.died("The kernel was killed.")
    first, second = kernel.answers()
    assert first.outputs.as_json() == []
    assert second.ended is not None
    assert [item.get("evalue") for item in second.outputs.as_json()] == [
        None,
        "The kernel was killed.",
    ]


def test_a_restart_forgets_all(kernel: Kernel) -> None:
    kernel.ask("a")
    kernel.past.forget()
    assert kernel.answers() == []


def test_what_ended_long_before_the_server_was_lost_was_seen(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.end(kernel.ask("a"))
    kernel.past.lost()
    (recent,) = kernel.answers()
    assert recent.missed and recent.unseen_from is not None
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + UNNOTICED + 10)
    kernel.ask("b", "cell-1")
    kernel.past.lost()
    earlier, running = kernel.answers()
    assert (earlier.missed, earlier.unseen_from) == (False, None)
    assert running.missed


def test_a_cell_that_waited_is_as_old_as_its_request(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notebook may have been edited while the cell waited."""
    message = KERNELS.msg("execute_request", {"code": "a"}, metadata={"cellId": "cell"})
    frames, asked_at = KERNELS.serialize(message), time.time()
    monkeypatch.setattr(time, "time", lambda: asked_at + 3600)
    kernel.past.asked(frames)
    (execution,) = kernel.answers()
    assert abs(execution.started - asked_at) < 5


def test_much_is_forgotten(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executions, "MOST", 5)
    for number in range(20):
        kernel.end(kernel.ask(str(number)))
    assert [execution.code for execution in kernel.answers()] == [str(n) for n in range(14, 20)]
