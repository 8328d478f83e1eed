"""Activity of a kernel in its own job, by which idle GPUs are given back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from .wire.messages import DELIMITER


class KernelActivity:
    """Cells that the kernel runs, from the messages that pass. ``clock``: monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._running = 0
        self._at = clock()

    def asked(self, frames: Sequence[bytes]) -> None:
        """Note a client's request."""
        if _is(frames, b'"execute_request"'):
            self._running += 1
            self._at = self._clock()

    def answered(self, frames: Sequence[bytes]) -> None:
        """Note a reply of the kernel."""
        if _is(frames, b'"execute_reply"'):
            self._running = max(0, self._running - 1)
            self._at = self._clock()

    def forget(self) -> None:
        """Forget what ran: the kernel is a new one."""
        self._running, self._at = 0, self._clock()

    def report(self) -> dict[str, Any]:
        """Return the portal's SessionActivity, ages in seconds. May be called in any thread."""
        running = self._running
        age = 0.0 if running else round(max(0.0, self._clock() - self._at), 1)
        return {
            "busy_kernels": int(bool(running)),
            "kernel": age,
            "terminal": None,
            "processes": None,
        }


def _is(frames: Sequence[bytes], kind: bytes) -> bool:
    """Return True if the message's header has this type; its text is JSON of any spacing."""
    try:
        return kind in frames[frames.index(DELIMITER) + 2]
    except (ValueError, IndexError):
        return False
