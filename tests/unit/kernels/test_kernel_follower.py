"""What a kernel tells of its past goes on as if this server had followed it from the beginning."""

from __future__ import annotations

import time
from typing import Any

import pytest
from portal_session.notebooks import kernel_follower
from portal_session.notebooks.executions import Execution
from portal_session.notebooks.kernel_follower import PAST, PAST_END, KernelFollower


class Session:
    """jupyter_client's, which finds the message ready."""

    def feed_identities(self, parts: Any) -> tuple[Any, Any]:
        return None, parts

    def deserialize(self, message: Any) -> Any:
        return message


class Kernel:
    """A follower, and the kernel that it listens to."""

    def __init__(self) -> None:
        self.told = 0
        self.follower = KernelFollower(None, lambda: None, past_shown=self._count)
        self.follower._session = Session()

    def _count(self) -> None:
        self.told += 1

    def say(self, kind: str, parent: str = "", **content: Any) -> None:
        header = {"msg_id": parent} if parent else {}
        message: Any = {"msg_type": kind, "content": content, "parent_header": header}
        self.follower._take(message)

    def print(self, parent: str, text: str) -> None:
        self.say("stream", parent, name="stdout", text=text)

    def tell_past(self, *past: Execution, lost_at: float | None = None) -> None:
        """Tell the past: the server was lost a second ago."""
        for execution in past:
            self.say(PAST, **execution.state(lost_at or time.time() - 1))
        self.say(PAST_END)

    def texts(self) -> list[tuple[str, str]]:
        """Return the cells and what they have printed, in order."""
        return [
            (execution.cell, "".join(item["text"] for item in execution.outputs.as_json()))
            for execution in self.follower.executions.values()
        ]


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


def _execution(id: str, cell: str, text: str = "", ended: float | None = None) -> Execution:
    """Execution of a page of the former server; ``ended``: seconds ago."""
    execution = Execution(id, "old", cell, "code", time.time() - 1000)
    if text:
        execution.outputs.take("stream", {"name": "stdout", "text": text})
    if ended is not None:
        execution.ended = time.time() - ended
    return execution


def test_what_is_said_from_now_on_is_added(kernel: Kernel) -> None:
    kernel.print("2", "of a former relay\n")  # before: it is in what is told
    kernel.tell_past(
        _execution("1", "a", "1\n", ended=5), _execution("2", "b", "of a former relay\n")
    )
    kernel.print("2", "2\n")
    kernel.print("1", "after its end\n")
    assert kernel.texts() == [("a", "1\n"), ("b", "of a former relay\n2\n")]
    kernel.say("status", "2", execution_state="idle")
    assert kernel.follower.executions["2"].ended is not None
    assert [execution.id for execution in kernel.follower.left()] == ["1", "2"]
    assert kernel.told == 1


def test_a_cell_that_is_run_meanwhile_comes_after_it(kernel: Kernel) -> None:
    kernel.follower.executions.begin(Execution("9", "new", "new cell", "code", time.time()))
    kernel.follower.executions.begin(Execution("8", "new", "a", "code", time.time()))
    kernel.tell_past(_execution("1", "a", "again", ended=5), _execution("2", "b", "runs"))
    kernel.say("status", "2", execution_state="busy")
    executions = kernel.follower.executions
    assert list(executions) == ["2", "9", "8"], "the output of a cell that was run again is not"
    assert executions["9"].ended is None


def test_the_page_that_is_back_gets_what_it_missed_and_once(kernel: Kernel) -> None:
    kernel.follower.came("old")
    kernel.tell_past(
        _execution("1", "a", "long ago", ended=500),
        _execution("2", "b", "just before", ended=5),
        _execution("3", "c", "runs"),
    )
    assert kernel.follower.left() == [], "its page shows it"
    handed = kernel.follower.hand_over("old")
    assert [(each.id, each.for_client()["own"]) for each in handed] == [("2", True), ("3", True)]
    assert [execution.id for execution in kernel.follower.hand_over("old")] == ["3"]
    kernel.say("status", "3", execution_state="idle")
    assert [execution.id for execution in kernel.follower.hand_over("old")] == ["3"]
    assert kernel.follower.hand_over("old") == []


def test_another_page_gets_all_that_is_not_in_the_file(kernel: Kernel) -> None:
    """It may have read the notebook before the kernel told its past."""
    kernel.follower.came("new")
    kernel.tell_past(
        _execution("1", "a", "saved", ended=500),
        _execution("2", "b", "not saved", ended=200),
        _execution("3", "c", "runs"),
    )
    kernel.follower.leave_saved(time.time() - 300)
    handed = kernel.follower.hand_over("new")
    assert [(each.id, each.for_client()["own"]) for each in handed] == [("2", False), ("3", False)]
    assert kernel.follower.left() == []


def test_what_a_page_has_it_can_save(kernel: Kernel) -> None:
    kernel.follower.came("old")
    kernel.tell_past(_execution("1", "a", "text", ended=5), lost_at=time.time() - 10)
    execution = kernel.follower.executions["1"]
    assert not execution.saved_by_page(time.time()), "a page without a connection"
    kernel.follower.hand_over("old")
    assert not execution.saved_by_page(time.time() - 2)
    assert execution.saved_by_page(time.time() + 1)


def test_only_the_last_run_of_a_cell_is_handed_over(kernel: Kernel) -> None:
    kernel.follower.came("old")
    kernel.tell_past(
        _execution("1", "a", "first", ended=5), _execution("2", "a", "second", ended=4)
    )
    assert [execution.id for execution in kernel.follower.hand_over("old")] == ["2"]


@pytest.mark.parametrize("content", [{}, {"id": 5}, {"id": "1", "outputs": None}])
def test_what_is_no_past_is_ignored(kernel: Kernel, content: dict[str, Any]) -> None:
    kernel.say(PAST, **content)
    kernel.say(PAST_END)
    assert kernel.follower.executions == {}


class Stream:
    """Stream of the kernel's broadcast."""

    def __init__(self) -> None:
        self.topics: list[bytes] = []

    def setsockopt(self, _: int, value: bytes) -> None:
        self.topics.append(value)

    def on_recv(self, _: Any) -> None:
        """Do nothing: nothing comes."""


def test_the_relay_is_told_that_the_server_listens() -> None:
    stream = Stream()

    class Own:
        config, key = None, b""

        def __init__(self, **_: Any) -> None:
            """Be as any other session."""

    class Listened:
        session, ports = Own(), ()

        def connect_iopub(self) -> Stream:
            return stream

        def add_restart_callback(self, *_: Any) -> None:
            """Never call it."""

    KernelFollower(Listened(), lambda: None).listen()
    assert stream.topics == [kernel_follower.PAST.encode()]
