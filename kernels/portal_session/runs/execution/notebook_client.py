"""Client of a point's kernel: nbclient's, whose outputs are bounded and known while a cell runs."""

from __future__ import annotations

import contextlib
import copy
import time
from queue import Empty
from typing import Any, Callable

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionComplete

from ...job_kernels.wire.backpressure import KEEP_ALL
from ...notebooks.cell_outputs import CellOutputs

LARGEST = 50 * 1024 * 1024  # characters of all outputs
_OUTPUTS = frozenset({"stream", "display_data", "execute_result", "error"})
NO_INPUT = frozenset({"StdinNotImplementedError"})  # ipykernel's, without a frontend
_LONGEST_ERROR = 100_000  # characters of a traceback's line, which is kept in any case
_LOOKS = 1.0  # seconds between two looks at the kernel's process, while it says nothing
_QUIET = 15.0  # seconds without a message, after which the end of a cell that has ended is lost
_LOST = "\nSome of this cell's output is missing: the kernel did not wait for its reader.\n"


class PointClient(NotebookClient):  # type: ignore[misc]
    """Client that executes the cells of ``nb``. ``changed`` is called when a cell prints; all
    outputs together have at most ``largest`` characters."""

    def __init__(
        self, nb: Any, manager: Any, largest: int, changed: Callable[[], None], **more: Any
    ) -> None:
        super().__init__(nb, km=manager, **more)
        self._largest, self._output_changed = largest, changed
        self._of_cells: dict[int, CellOutputs] = {}
        self._requests: dict[str, int] = {}  # index of a cell by the id of its request
        self._errors: dict[int, dict[str, Any]] = {}  # that cells have shown first, by index

    async def keep_all_output(self) -> None:
        """Have the kernel wait for its reader, not drop what it prints. One that cannot do so has
        a reader whose queue takes everything."""
        reply = None
        if self.km.kernel_spec.language.lower() == "python":
            more = {"silent": True, "store_history": False, "allow_stdin": False}
            reply = await self.async_wait_for_reply(self.kc.execute(KEEP_ALL, **more))
        if reply is None or reply["content"].get("status") != "ok":
            self.kc.iopub_channel.socket.rcvhwm = 0

    async def execute(self, index: int) -> dict[str, Any]:
        """Execute a cell to its end; return the content of the kernel's reply, or the error that
        the cell has shown although the reply is "ok": that of ``%%capture`` or ``%run`` is. Its
        outputs are read to their end too, however late they are. Raises DeadKernelError.

        In place of `async_execute_cell`, which drops what is left to read 4 s after the reply, and
        waits for a reply without an end: pyzmq misses one that comes while a widget's message is
        sent over the same socket.
        """
        cell = self.nb["cells"][index]
        cell["metadata"]["execution"], cell["outputs"] = {}, []
        # After an error, a kernel aborts requests for a moment: the next cell may go on.
        request = self.kc.execute(cell["source"], allow_stdin=False, stop_on_error=False)
        self._requests[request] = index
        reply: dict[str, Any] | None = None
        answered_at = time.monotonic()
        while True:
            try:
                message = await self.kc.iopub_channel.get_msg(timeout=_LOOKS)
            except Empty:
                reply = reply or await self._reply(request, 0.0)
                if reply is None:
                    await self._async_check_alive()
                elif time.monotonic() - answered_at > _QUIET:
                    self._of_cells[index].take("stream", {"name": "stderr", "text": _LOST})
                    break
                continue
            answered_at = time.monotonic()
            try:
                self._take(message)
            except CellExecutionComplete:
                if message["parent_header"]["msg_id"] == request:
                    break
        while reply is None:
            reply = await self._reply(request, _LOOKS)
            if reply is None:
                await self._async_check_alive()
        # A debugger that an error calls (%pdb) asks for input.
        if index in self._errors and (
            reply.get("status") == "ok" or reply.get("ename") in NO_INPUT
        ):
            return {**self._errors[index], "status": "error"}
        return reply

    async def _reply(self, id: str, seconds: float) -> dict[str, Any] | None:
        """Return the content of the reply to a request; None if it does not come in time."""
        with contextlib.suppress(Empty):
            while True:
                message = await self.kc.shell_channel.get_msg(timeout=seconds)
                if message["parent_header"].get("msg_id") == id:
                    return dict(message["content"])
        return None

    def _take(self, message: Any) -> None:
        """Take a message of a cell, of an earlier one too: its threads may print still."""
        index = self._requests.get(message["parent_header"].get("msg_id", ""))
        if index is not None:
            self.process_message(message, self.nb["cells"][index], index)

    def begin_cell(self, index: int) -> CellOutputs:
        """Return the empty outputs of the next cell, which may use the space that the others
        left."""
        used = sum(outputs.size for outputs in self._of_cells.values())
        note = (
            f"\nThe rest of this output was dropped: the notebook has more than "
            f"{self._largest / 1024**2:.3g} MB.\n"
        )
        outputs = self._of_cells[index] = CellOutputs(max(0, self._largest - used), note)
        return outputs

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        """Take the message of a running cell. Raises CellExecutionComplete after the last."""
        kind, content = msg["msg_type"], msg["content"]
        widget = self.output_hook_stack.get(msg["parent_header"].get("msg_id"))
        outputs = self._of_cells.get(cell_index)
        if outputs is None or widget or kind not in (*_OUTPUTS, "clear_output"):
            if kind == "update_display_data":
                self._update(content)
                return None
            return super().process_message(msg, cell, cell_index)
        if kind in ("display_data", "execute_result"):
            self._update(content)  # as in JupyterLab, all displays of this id show the newest
        if kind == "error":
            content = shortened(content)
            self._errors.setdefault(cell_index, content)
        elif kind == "clear_output":
            self._errors.pop(cell_index, None)
        outputs.take(kind, content)
        if content.get("execution_count"):
            cell["execution_count"] = content["execution_count"]
        self._output_changed()
        return None

    def _update(self, content: Any) -> None:
        for outputs in self._of_cells.values():
            outputs.update(content)
        self._output_changed()

    def snapshot(self) -> dict[str, Any]:
        """Return the notebook as it is now, which does not change afterwards."""
        cells = []
        for index, cell in enumerate(self.nb["cells"]):
            cell_copy = dict(cell)
            cell_copy["metadata"] = copy.deepcopy(dict(cell.get("metadata", {})))
            if index in self._of_cells:
                # Those of widgets are nbclient's.
                cell_copy["outputs"] = [*self._of_cells[index].as_json(), *cell.get("outputs", ())]
            cells.append(cell_copy)
        metadata = copy.deepcopy(dict(self.nb["metadata"]))
        return {**self.nb, "metadata": metadata, "cells": cells}


def shortened(content: dict[str, Any]) -> dict[str, Any]:
    """Return an error whose texts have a bounded length: it is kept after all other outputs."""
    lines = [str(line)[:_LONGEST_ERROR] for line in content.get("traceback", ())[-200:]]
    texts = {name: str(content.get(name, ""))[:_LONGEST_ERROR] for name in ("ename", "evalue")}
    return {**content, **texts, "traceback": lines}
