"""Activity of a kernel in its own job, by which idle GPUs are given back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ...measurements.processes import Processes
from ..wire.messages import DELIMITER


class KernelActivity:
    """Cells that the kernel runs, from the messages that pass, and what its processes compute.
    ``clock``: monotonic seconds."""

    def __init__(self, processes: Processes, clock: Callable[[], float] = time.monotonic) -> None:
        self._processes, self._clock = processes, clock
        self._running = 0
        self._began = self._at = self._computed_at = clock()
        self._looked = False
        self.pid = 0  # of the kernel; 0 while there is none

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
        """Return the portal's SessionActivity, ages in seconds. Call it in a thread, always the
        same: it reads all processes of the account."""
        running, now = self._running, self._clock()
        used = self._processes.used_cpu({self.pid} - {0}, now)
        if used is not False:
            self._computed_at = now
        unknown, self._looked = used is None and self._looked, True

        def age(at: float) -> float:
            return round(max(0.0, now - at), 1)

        return {
            "busy_kernels": int(bool(running)),
            "kernel": 0.0 if running else age(self._at),
            "terminal": age(self._began),  # the job has none; an age that is unknown is no idleness
            "processes": None if unknown else age(self._computed_at),
        }


def _is(frames: Sequence[bytes], kind: bytes) -> bool:
    """Return True if the message's header has this type; its text is JSON of any spacing."""
    try:
        return kind in frames[frames.index(DELIMITER) + 2]
    except (ValueError, IndexError):
        return False
