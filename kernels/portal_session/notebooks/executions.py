"""Executions of cells in a kernel, and their outputs.

Only the browser that asks a kernel to run a cell knows where the answer belongs. It says so in the
message (JupyterLab sends the cell's id since version 4). The kernel's answers name that message.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from .cell_outputs import CellOutputs
from .notebook_file import CellResult

MOST = 200  # executions kept per kernel
LARGEST = 32 * 1024 * 1024  # characters of outputs kept per kernel
OLDEST = 3600.0  # seconds after which a finished execution that no page missed is dropped
# Time for which a server may take a broken connection for a good one (two pings of
# jupyter_server); what it sent meanwhile did not arrive.
UNNOTICED = 90.0  # seconds


class Execution:
    """A single run of a cell, for one client (a browser's page). Times are Unix seconds, which are
    compared with the notebook file's; ``left_at`` is monotonic."""

    def __init__(self, id: str, client: str, cell: str, code: str, started: float) -> None:
        self.id, self.client, self.cell, self.code = id, client, cell, code
        self.asked_by = client  # ``client`` is whom it runs for now
        self.started = started
        self.ended: float | None = None
        self.outputs = CellOutputs()
        self.left_at: float | None = None  # time at which its client left, by time.monotonic()
        self.missed = False  # its client was away and may have missed something
        self.saved = 0  # the outputs' ``changes`` that are on disk
        self.past = False  # it is of a former server, and no page of this one has it
        # Times from which on no page saw its outputs, and a page has them again.
        self.unseen_from: float | None = None
        self.seen_again: float | None = None

    def result(self) -> CellResult:
        outputs = self.outputs
        return CellResult(
            self.cell, self.code, self.started, outputs.execution_count, outputs.as_json()
        )

    def for_client(self) -> dict[str, Any]:
        """Return what a page needs to show it. ``own``: the page asked for it itself."""
        return {
            "id": self.id,
            "cell": self.cell,
            "own": self.client == self.asked_by,
            "running": self.ended is None,
            "execution_count": self.outputs.execution_count,
            "outputs": self.outputs.as_json(),
        }

    def saved_by_page(self, saved_at: float) -> bool:
        """Return True if a notebook that its page saved at this time (Unix seconds) has all of its
        outputs."""
        if self.ended is None or saved_at < self.ended:
            return False
        if self.unseen_from is None or saved_at < self.unseen_from:
            return True
        return self.seen_again is not None and saved_at >= self.seen_again

    def state(self, lost_at: float) -> dict[str, Any]:
        """Return, for JSON, what another process needs to go on with it. ``lost_at``: the time at
        which the server that followed it was lost, in Unix seconds."""
        recent = self.ended is None or self.ended > lost_at - UNNOTICED
        return {
            "id": self.id,
            "client": self.client,
            "cell": self.cell,
            "code": self.code,
            "started": self.started,
            "ended": self.ended,
            "unseen_from": lost_at if recent else None,
            "outputs": self.outputs.state(),
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Execution:
        """Return the execution of a ``state``. Raises ValueError for an invalid one."""
        texts = [state.get(name) for name in ("id", "client", "cell", "code")]
        started, ended, unseen = (state.get(name) for name in ("started", "ended", "unseen_from"))
        named = all(isinstance(text, str) and text for text in texts)
        timed = _is_time(started) and all(x is None or _is_time(x) for x in (ended, unseen))
        if not (named and timed):
            raise ValueError("This is not the state of an execution.")
        id, client, cell, code = map(str, texts)
        execution = cls(id, client, cell, code, float(started or 0.0))
        execution.ended, execution.unseen_from = ended, unseen
        execution.outputs = CellOutputs.restored(state.get("outputs") or {})
        execution.missed, execution.past = unseen is not None, True
        return execution


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class Executions(dict[str, Execution]):
    """Executions of one kernel by message id, in the order asked for."""

    def begin(self, execution: Execution) -> None:
        """Follow an execution that was asked for; old ones are dropped."""
        self._forget()
        self[execution.id] = execution

    def take(self, kind: str, content: dict[str, Any], parent: str) -> bool:
        """Take a message of the kernel's broadcast; return True if it ends an execution.
        ``parent``: the id of the message that it belongs to."""
        if kind == "update_display_data":
            for displayed in self.values():
                displayed.outputs.update(content)
            return False
        execution = self.get(parent)
        if execution is None or execution.ended is not None:
            return False
        if kind != "status":
            execution.outputs.take(kind, content)
        elif content.get("execution_state") == "idle":
            execution.ended = time.time()
            return True
        elif content.get("execution_state") == "busy":
            self._end_earlier(execution)
        return False

    def fail(self, kind: str, content: dict[str, Any]) -> None:
        """End what runs, with this message as its last output: the kernel has ended."""
        for execution in self.values():
            if execution.ended is None:
                execution.outputs.take(kind, content)
                execution.ended = time.time()

    def _end_earlier(self, execution: Execution) -> None:
        """End the executions before this one: a kernel runs one cell at a time, so they ended with
        the kernel."""
        for earlier in self.values():
            if earlier is execution:
                return
            earlier.ended = earlier.ended or time.time()

    def _forget(self) -> None:
        """Drop finished executions that no page missed, if they are old or too many."""
        now, size, number = time.time(), 0, 0
        for execution in reversed(list(self.values())):
            size, number = size + execution.outputs.size, number + 1
            much = size > LARGEST or number > MOST
            if (
                execution.ended
                and execution.left_at is None
                and (much or now - execution.ended > OLDEST)
            ):
                del self[execution.id]


def asked_execution(raw: Any, protocol: str | None) -> Execution | None:
    """Return the execution that a browser's message asks for; None for any other message.

    ``protocol``: the websocket's. "v1.kernel.websocket.jupyter.org" has the parts one after the
    other; without it a message is one JSON text.
    """
    mark = "execute_request" if isinstance(raw, str) else b"execute_request"
    if mark not in raw[:4096]:
        return None
    if protocol == "v1.kernel.websocket.jupyter.org":
        from jupyter_server.services.kernels.connection.base import deserialize_msg_from_ws_v1

        _, parts = deserialize_msg_from_ws_v1(raw)
        header, metadata, content = (json.loads(bytes(parts[at])) for at in (0, 2, 3))
    elif isinstance(raw, str):
        message = json.loads(raw)
        header, metadata, content = (message.get(n) for n in ("header", "metadata", "content"))
    else:
        return None
    return execution_of(header, metadata, content)


def execution_of(header: Any, metadata: Any, content: Any) -> Execution | None:
    """Return the execution that a message asks for, by its parts; None for any other message."""
    header, metadata, content = header or {}, metadata or {}, content or {}
    cell, code = metadata.get("cellId"), content.get("code")
    id, client = header.get("msg_id"), header.get("session")
    named = header.get("msg_type") == "execute_request" and not content.get("silent")
    if not (named and all(isinstance(x, str) and x for x in (cell, code, id, client))):
        return None
    return Execution(id, client, cell, code, time.time())
