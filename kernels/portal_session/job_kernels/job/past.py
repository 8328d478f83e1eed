"""Past of the kernel in this job: the cells that it ran, and their outputs.

A session's server follows the executions of its kernels in memory. If it is killed, the next one
learns from here what it cannot know: what ran, and what that has printed until now.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from ...notebooks.executions import Executions, execution_of
from ..wire.messages import DELIMITER, failure

# A kernel may publish anything. What cannot be read is no output of a cell.
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


class Past:
    """Executions of the kernel, from the messages that pass."""

    def __init__(self) -> None:
        self._executions = Executions()
        self._lost_at = 0.0  # time at which the last relay was lost, in Unix seconds

    def asked(self, frames: Sequence[Any]) -> None:
        """Note a client's request on the shell channel."""
        with contextlib.suppress(*_UNREADABLE):
            header, _, metadata, content = _parts(frames)
            if b"execute_request" not in bytes(header):
                return
            asked = json.loads(bytes(header))
            execution = execution_of(asked, *(json.loads(bytes(x)) for x in (metadata, content)))
            if execution is not None:
                # It may have waited here: the notebook that was saved meanwhile is newer.
                with contextlib.suppress(*_UNREADABLE):
                    asked_at = datetime.fromisoformat(asked["date"].replace("Z", "+00:00"))
                    execution.started = min(execution.started, asked_at.timestamp())
                self._executions.begin(execution)

    def take(self, frames: Sequence[Any]) -> None:
        """Note a message that the kernel broadcasts."""
        if not self._executions:
            return
        with contextlib.suppress(*_UNREADABLE):
            header, parent, _, content = _parts(frames)
            kind, id = json.loads(header)["msg_type"], json.loads(parent).get("msg_id", "")
            if id in self._executions or kind == "update_display_data":
                self._executions.take(kind, json.loads(content), id)

    def died(self, sentence: str) -> None:
        """End what runs: the kernel's process has ended, as the sentence says."""
        self._executions.fail("error", failure("KernelDied", sentence))

    def lost(self) -> None:
        """Note that the connection to the relay has ended, and with it perhaps the server."""
        self._lost_at = time.time()

    def forget(self) -> None:
        """Forget all executions: the user has restarted the kernel."""
        self._executions.clear()

    def states(self) -> Iterator[dict[str, Any]]:
        """Yield each execution's state, in the order asked for (`Execution.restored`)."""
        for execution in self._executions.values():
            yield execution.state(self._lost_at)


def _parts(frames: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    """Return header, parent, metadata and content of a message. Raises ValueError for anything
    else."""
    at = frames.index(DELIMITER) + 2  # after the signature
    header, parent, metadata, content = frames[at : at + 4]
    return header, parent, metadata, content
