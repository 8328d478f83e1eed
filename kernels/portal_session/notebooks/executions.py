"""Follows what cells print, whoever looks on: what runs in one kernel, and for which browser.

A browser that asks a kernel to run a cell is the only one that knows where the answer belongs. It
says so in the message (JupyterLab sends the cell's id since version 4), and that is read here on
its way. The kernel's answers are read beside it, from its broadcast.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from .cell_outputs import CellOutputs
from .notebook_file import CellResult

MOST = 200  # executions that are remembered of one kernel
LARGEST = 32 * 1024 * 1024  # characters of outputs that are remembered of one kernel
OLDEST = 3600.0  # seconds after which a finished one is forgotten that nobody missed
# For so long a server can take a broken connection for a good one (two pings of jupyter_server);
# what it sent meanwhile did not arrive.
UNNOTICED = 90.0  # seconds
DIED = "The kernel ended while this cell ran. It may have run out of memory.\n"


class Execution:
    """One run of one cell, for one client (a browser's page). Times are Unix seconds, which
    are compared with the notebook file's, but for ``left_at``."""

    def __init__(self, id: str, client: str, cell: str, code: str, started: float) -> None:
        self.id, self.client, self.cell, self.code = id, client, cell, code
        self.asked_by = client  # for whom it runs now is ``client``
        self.started = started
        self.ended: float | None = None
        self.outputs = CellOutputs()
        self.left_at: float | None = None  # since when its client is away, by time.monotonic()
        self.missed = False  # its client was away for a while: it may have missed something
        self.saved = 0  # the outputs' ``changes`` that are on disk

    def result(self) -> CellResult:
        outputs = self.outputs
        return CellResult(
            self.cell, self.code, self.started, outputs.execution_count, outputs.as_json()
        )

    def for_client(self) -> dict[str, Any]:
        """What a page needs to show it. ``own``: it is the page that asked for it."""
        return {
            "id": self.id,
            "cell": self.cell,
            "own": self.client == self.asked_by,
            "running": self.ended is None,
            "execution_count": self.outputs.execution_count,
            "outputs": self.outputs.as_json(),
        }


class KernelFollower:
    """The executions of one kernel, from its broadcast. ``changed`` is called when one ends,
    ``shown`` with what a cell shows, by MIME type."""

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
        """Listen to the kernel, anew where it was restarted with other ports."""
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
        for one in self.executions.values():
            if one.client == client:
                one.left_at = None

    def went(self, client: str, *, back: bool = False) -> None:
        """The page's connection is over. ``back``: it has another one already."""
        now = time.time()
        if not back:
            self.clients.discard(client)
        for one in self.executions.values():
            if one.client == client and one.left_at is None:
                one.missed = one.missed or one.ended is None or now - one.ended < UNNOTICED
                one.left_at = None if back else time.monotonic()

    def hand_over(self, client: str) -> list[Execution]:
        """What this page may have missed, and what a page that is away left to it."""
        now = time.time()
        for one in self.executions.values():
            recent = one.ended is None or now - one.ended < UNNOTICED
            if one.client not in self.clients and (one.left_at is not None or recent):
                one.client, one.left_at = client, None
        missed = [one for one in self.executions.values() if one.missed and one.client == client]
        for one in missed:
            one.missed = one.ended is None  # what is complete is not told again
        return missed

    def left(self) -> list[Execution]:
        """Those whose page is away."""
        return [one for one in self.executions.values() if one.left_at is not None]

    def _take(self, parts: list[Any]) -> None:
        _, fed = self._session.feed_identities(parts)
        message = self._session.deserialize(fed)
        kind, content = message["msg_type"], message["content"]
        if kind == "display_data" and isinstance(content.get("data"), dict):
            self._shown(content["data"])
        if kind == "update_display_data":
            for one in self.executions.values():
                one.outputs.update(content)
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
        for one in self.executions.values():
            if one.ended is None:
                one.outputs.take("stream", {"name": "stderr", "text": DIED})
                one.ended = time.time()
        self._changed()

    def _end_earlier(self, execution: Execution) -> None:
        """A kernel runs one cell after the other: what came before ended, with the kernel."""
        for one in self.executions.values():
            if one is execution:
                return
            one.ended = one.ended or time.time()

    def _forget(self) -> None:
        """Drop what is finished and was not missed when it is old, or much."""
        now, size, number = time.time(), 0, 0
        for one in reversed(list(self.executions.values())):
            size, number = size + one.outputs.size, number + 1
            much = size > LARGEST or number > MOST
            if one.ended and one.left_at is None and (much or now - one.ended > OLDEST):
                del self.executions[one.id]


def asked_execution(raw: Any, protocol: str | None) -> Execution | None:
    """The execution that a message from a browser asks for; None for any other message.

    ``protocol``: the websocket's. "v1.kernel.websocket.jupyter.org" has the parts one after the
    other, without it a message is one JSON text.
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
