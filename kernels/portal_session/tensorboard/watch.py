"""Watch of one TensorBoard, a thread in its own process: reports how far it has read, and ends it
if it takes too much memory or its session is over."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path
from typing import Any

from ..programs.runtime import Place, Runtime
from . import record
from .memory import tree_memory

PAUSE = 0.5  # seconds between two looks
MOST_SKIPPED = 20  # links that are listed


class Watch(threading.Thread):
    """Thread that watches the process. ``limit`` is in MiB."""

    def __init__(self, place: Place, runtime: Runtime, limit: int) -> None:
        super().__init__(name="portal-watch", daemon=True)
        self.reason = ""
        self._place = place
        self._runtime = runtime
        self._limit = limit
        self._phase = "starting"
        self._total = 0  # bytes of event files
        self._files = 0
        self._before = 0  # bytes that this process had read before the logs
        self._skipped: list[str] = []
        self._lock = threading.Lock()
        self._written: dict[str, Any] = {}
        self._pause = threading.Event()

    def stop(self) -> None:
        """Stop the watch: the program ends on request, and nothing more is written."""
        self._pause.set()

    def prepare(self) -> None:
        """Isolate this process: in a session of its own, so that an interrupt of the kernel does
        not end it; with a lower CPU priority than the user's work; and the first to be killed when
        the job's memory runs out."""
        with contextlib.suppress(OSError):
            os.setsid()
        with contextlib.suppress(OSError):
            os.nice(5)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")

    def run(self) -> None:
        self.prepare()
        self._write()
        while not self._pause.wait(PAUSE):
            if self._runtime.is_abandoned() or not self._place.path.exists():
                self._place.remove()
                with contextlib.suppress(OSError):
                    self._runtime.path.rmdir()
                os.killpg(os.getpgid(0), signal.SIGKILL)
            used = tree_memory(os.getpid())
            if used > self._limit:
                self.end(
                    f"TensorBoard was stopped: it used {used} MiB of memory, more than the limit "
                    f"of {self._limit} MiB. Open fewer or smaller folders."
                )
                os.killpg(os.getpgid(0), signal.SIGKILL)
            self._write()

    def reading(self) -> None:
        self._before = _bytes_read()
        self._phase = "reading"

    def ready(self) -> None:
        """Record that all data that existed at the start have been read."""
        self._phase = "ready"
        self._write()

    def end(self, reason: str) -> None:
        """Record that it ends without a request, and why."""
        self.reason = reason
        self._phase = "ended"
        self._write()

    def found(self, path: str) -> None:
        """Count an event file."""
        self._files += 1
        with contextlib.suppress(OSError):
            self._total += os.stat(path).st_size  # noqa: PTH116

    def skipped(self, path: str) -> None:
        """Record a link out of the user's folders that is not followed."""
        if path not in self._skipped and len(self._skipped) < MOST_SKIPPED:
            self._skipped.append(path)

    def _write(self) -> None:
        with self._lock:
            if self._written.get("phase") == "ended":
                return  # the final state
            state = {
                "pid": os.getpid(),
                "birth": record.own_birth(),
                "phase": self._phase,
                "reason": self.reason,
                "files": self._files,
                "total": self._total,
                "read": 0,
                "skipped": list(self._skipped),
            }
            if self._phase == "reading":
                state["read"] = min(self._total, max(0, _bytes_read() - self._before))
            if state != self._written:
                with contextlib.suppress(OSError):
                    record.write(self._place.state, state)
                self._written = state


def _bytes_read() -> int:
    """Return the bytes that this process has read until now (rchar of proc(5), /proc/PID/io)."""
    try:
        return int(Path("/proc/self/io").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
