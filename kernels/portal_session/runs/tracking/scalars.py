"""TensorBoard's scalars as metrics of a point, while it runs.

TensorBoard's own reader reads them, in a process of the point's Python with the lowest priority;
without TensorBoard there, nothing happens. The process is started once there is an event file.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import event_reader
from .event_files import EventFiles

_FIRST, _LONGEST = 0.5, 60.0  # seconds between two looks, doubled each time
_PAUSE = 10.0  # seconds between two looks after a file was found


class Scalars(threading.Thread):
    """Thread that looks for event files and has them read into the file ``metrics``. ``python``:
    the argv of the point's Python; ``variables``: its environment."""

    def __init__(
        self,
        files: EventFiles,
        metrics: Path,
        python: Sequence[str],
        variables: Mapping[str, str],
    ) -> None:
        super().__init__(name="portal-scalars", daemon=True)
        self._files, self._variables = files, {**variables, "CUDA_VISIBLE_DEVICES": ""}
        text = Path(event_reader.__file__).read_text(encoding="utf-8")
        self._argv = [*python, "-c", text, str(metrics)]
        self._reader: subprocess.Popen[bytes] | None = None
        self._end = threading.Event()

    def run(self) -> None:
        """Look until `finish`, then once more; wait until all is read."""
        wait = _FIRST
        while not self._end.wait(wait):
            wait = _PAUSE if self._look() else min(wait * 2, _LONGEST)
        self._look()
        if self._reader is not None and self._reader.stdin is not None:
            with contextlib.suppress(OSError):
                self._reader.stdin.close()
            self._reader.wait()

    def finish(self, patience: float) -> None:
        """Read what is new, for ``patience`` seconds at most. Blocks."""
        self._end.set()
        self.join(patience)
        if self.is_alive() and self._reader is not None:
            with contextlib.suppress(OSError):
                self._reader.kill()

    def _look(self) -> bool:
        """Pass new files to the reader; return True if it has any."""
        lines = b"".join(os.fsencode(path) + b"\n" for path in self._files.new_files()
                         if "\n" not in str(path))  # fmt: skip
        if lines and self._reader is None:
            with contextlib.suppress(OSError, ValueError):
                self._reader = subprocess.Popen(
                    self._argv,
                    cwd=os.sep,
                    env=self._variables,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
        if lines and self._reader is not None and self._reader.stdin is not None:
            with contextlib.suppress(OSError):  # it has ended: there is no TensorBoard
                self._reader.stdin.write(lines)
                self._reader.stdin.flush()
        return self._reader is not None
