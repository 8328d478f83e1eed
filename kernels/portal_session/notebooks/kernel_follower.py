"""Follower of a kernel's executions, whether a page is open or not.

The kernel's answers are read from its broadcast, in parallel to the pages. A kernel in a job of its
own that outlived a former server tells there what it ran (`job_kernels/job/past.py`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import zmq

from .executions import UNNOTICED, Execution, Executions

DIED = "The kernel ended while this cell ran. It may have run out of memory.\n"
# Messages of a job kernel's relay: an execution that a former server followed, and their end.
PAST, PAST_END = "portal_past", "portal_past_end"


class KernelFollower:
    """Executions of one kernel, from its broadcast. ``changed`` is called when one ends,
    ``data_shown`` with what a cell shows, by MIME type, ``past_shown`` when the kernel has told its
    past."""

    def __init__(
        self,
        kernel: Any,
        changed: Callable[[], None],
        data_shown: Callable[[dict[str, Any]], None] = lambda data: None,
        past_shown: Callable[[], None] = lambda: None,
    ) -> None:
        self.clients: set[str] = set()
        self.executions = Executions()
        self._past: dict[str, Execution] = {}  # told so far
        self._kernel = kernel
        self._changed = changed
        self._shown = data_shown
        self._past_shown = past_shown
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
        # A relay sees this one, and tells the past when nothing is missed any more.
        self._stream.setsockopt(zmq.SUBSCRIBE, PAST.encode())
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
        self.executions.begin(execution)

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
                # The page may have read the notebook before the kernel told its past.
                unsaved = execution.outputs.changes > execution.saved
                execution.missed = execution.missed or (execution.past and unsaved)
        missed = [
            execution
            for execution in self.executions.values()
            if execution.missed and execution.client == client
        ]
        for execution in missed:
            execution.missed = execution.ended is None  # complete ones are not handed over again
            if not execution.missed:
                execution.past, execution.seen_again = False, now
        return missed

    def left(self) -> list[Execution]:
        """Return the executions whose page is away."""
        return [
            execution for execution in self.executions.values() if execution.left_at is not None
        ]

    def leave_saved(self, saved_at: float) -> None:
        """Leave out the past executions that a notebook saved at this time has already."""
        for execution in list(self.executions.values()):
            if execution.past and execution.saved_by_page(saved_at):
                del self.executions[execution.id]

    def _take(self, parts: list[Any]) -> None:
        _, fed = self._session.feed_identities(parts)
        message = self._session.deserialize(fed)
        kind, content = message["msg_type"], message["content"]
        if kind == PAST:
            with contextlib.suppress(ValueError):  # any kernel may say so
                execution = Execution.restored(content)
                self._past[execution.id] = execution
        elif kind == PAST_END:
            self._take_up_past()
        if kind == "display_data" and isinstance(content.get("data"), dict):
            self._shown(content["data"])
        if self.executions.take(kind, content, message["parent_header"].get("msg_id", "")):
            self._changed()

    def _take_up_past(self) -> None:
        """Go on with what the kernel told. Pages of the former server are not waited for: the Hub
        has ended their logins with it, so they can neither connect nor save, but must be loaded
        again."""
        past, self._past = self._past, {}
        newer = {execution.cell for execution in self.executions.values()}
        last = {execution.cell: execution for execution in past.values()}
        for execution in past.values():
            execution.missed = execution.missed and last[execution.cell] is execution
            if execution.client not in self.clients:
                execution.left_at = float("-inf")  # no patience
            known = self.executions.get(execution.id)
            if known is not None:  # a relay was killed, with what it had and did not pass on
                known.outputs, known.saved = execution.outputs, 0
                known.ended = known.ended or execution.ended
                known.missed = known.missed or execution.ended is None
        # What was run here meanwhile comes after it in the kernel.
        later_executions = dict(self.executions)
        self.executions.clear()
        self.executions.update(
            {id: execution for id, execution in past.items() if execution.cell not in newer}
        )
        self.executions.update(later_executions)
        self._past_shown()

    def _died(self) -> None:
        self.executions.fail("stream", {"name": "stderr", "text": DIED})
        self._changed()
