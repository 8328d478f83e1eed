"""Executions in a kernel and their outputs, followed whether a page is open or not.

Only the browser that asks a kernel to run a cell knows where the answer belongs. It says so in the
message (JupyterLab sends the cell's id since version 4), which is read here on its way. The
kernel's answers are read in parallel, from its broadcast.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from .cell_outputs import CellOutputs
from .notebook_file import CellResult

MOST = 200  # executions kept per kernel
LARGEST = 32 * 1024 * 1024  # characters of outputs kept per kernel
OLDEST = 3600.0  # seconds after which a finished execution that no page missed is dropped
# Time for which a server may take a broken connection for a good one (two pings of
# jupyter_server); what it sent meanwhile did not arrive.
UNNOTICED = 90.0  # seconds
DIED = "The kernel ended while this cell ran. It may have run out of memory.\n"


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


class KernelFollower:
    """Executions of one kernel, from its broadcast. ``changed`` is called when one ends, ``shown``
    with what a cell shows, by MIME type."""

    def __init__(
        self,
        kernel: Any,
        changed: Callable[[], None],
        shown: Callable[[dict[str, Any]], None] = lambda data: None,
    ) -> None:
        self.clients: set[str] = set()
        self.executions: dict[str, Execution] = {}  # by message id, in the order asked for
        self._kernel = kernel
        self._changed = changed
        self._shown = shown
        self._stream: Any = None
        self._session: Any = None
        self._ports: list[int] = []

    def listen(self) -> None:
        """Listen to the kernel, anew if it was restarted with other ports."""
        if self._stream is not None and self._ports == list(self._kernel.ports):
            return
        self.close()
        own = self._kernel.session
        self._session = type(own)(config=own.config, key=own.key)
        self._ports = list(self._kernel.ports)
        self._stream = self._kernel.connect_iopub()
        self._stream.on_recv(self._take)
        self._kernel.add_restart_callback(self._died, "restart")
        self._kernel.add_restart_callback(self._died, "dead")

    def close(self) -> None:
        if self._stream is not None:
            self._kernel.remove_restart_callback(self._died, "restart")
            self._kernel.remove_restart_callback(self._died, "dead")
        if self._stream is not None and not self._stream.closed():
            self._stream.on_recv(None)
            self._stream.close()
        self._stream = None

    def asked(self, execution: Execution) -> None:
        self.listen()
        self._forget()
        self.executions[execution.id] = execution

    def came(self, client: str) -> None:
        self.clients.add(client)
        for execution in self.executions.values():
            if execution.client == client:
                execution.left_at = None

    def went(self, client: str, *, back: bool = False) -> None:
        """Record that the page's connection is closed. ``back``: it has another one already."""
        now = time.time()
        if not back:
            self.clients.discard(client)
        for execution in self.executions.values():
            if execution.client == client and execution.left_at is None:
                execution.missed = (
                    execution.missed or execution.ended is None or now - execution.ended < UNNOTICED
                )
                execution.left_at = None if back else time.monotonic()

    def hand_over(self, client: str) -> list[Execution]:
        """Return what this page may have missed, and take over what a page that is away left."""
        now = time.time()
        for execution in self.executions.values():
            recent = execution.ended is None or now - execution.ended < UNNOTICED
            if execution.client not in self.clients and (execution.left_at is not None or recent):
                execution.client, execution.left_at = client, None
        missed = [
            execution
            for execution in self.executions.values()
            if execution.missed and execution.client == client
        ]
        for execution in missed:
            execution.missed = execution.ended is None  # complete ones are not handed over again
        return missed

    def left(self) -> list[Execution]:
        """Return the executions whose page is away."""
        return [
            execution for execution in self.executions.values() if execution.left_at is not None
        ]

    def _take(self, parts: list[Any]) -> None:
        _, fed = self._session.feed_identities(parts)
        message = self._session.deserialize(fed)
        kind, content = message["msg_type"], message["content"]
        if kind == "display_data" and isinstance(content.get("data"), dict):
            self._shown(content["data"])
        if kind == "update_display_data":
            for displayed in self.executions.values():
                displayed.outputs.update(content)
            return
        execution = self.executions.get(message["parent_header"].get("msg_id", ""))
        if execution is None or execution.ended is not None:
            return
        if kind != "status":
            execution.outputs.take(kind, content)
        elif content.get("execution_state") == "idle":
            execution.ended = time.time()
            self._changed()
        elif content.get("execution_state") == "busy":
            self._end_earlier(execution)

    def _died(self) -> None:
        for execution in self.executions.values():
            if execution.ended is None:
                execution.outputs.take("stream", {"name": "stderr", "text": DIED})
                execution.ended = time.time()
        self._changed()

    def _end_earlier(self, execution: Execution) -> None:
        """End the executions before this one: a kernel runs one cell at a time, so they ended with
        the kernel."""
        for earlier in self.executions.values():
            if earlier is execution:
                return
            earlier.ended = earlier.ended or time.time()

    def _forget(self) -> None:
        """Drop finished executions that no page missed, if they are old or too many."""
        now, size, number = time.time(), 0, 0
        for execution in reversed(list(self.executions.values())):
            size, number = size + execution.outputs.size, number + 1
            much = size > LARGEST or number > MOST
            if (
                execution.ended
                and execution.left_at is None
                and (much or now - execution.ended > OLDEST)
            ):
                del self.executions[execution.id]


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
    cell, code = (metadata or {}).get("cellId"), (content or {}).get("code")
    id, client = header.get("msg_id"), header.get("session")
    named = header.get("msg_type") == "execute_request" and not content.get("silent")
    if not (named and all(isinstance(x, str) and x for x in (cell, code, id, client))):
        return None
    return Execution(id, client, cell, code, time.time())
