"""Notebook on disk that grows while its cells run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from pathlib import Path
from typing import Any, Callable

from ..disk import reason

_PRINTS = 5.0  # seconds until what a cell prints is written
_LEAST = 0.5  # seconds between two writes
_MOST = 5.0
_SHARE = 10  # a write that takes 0.1 s is followed by 1 s without one


class NotebookWriter:
    """Writer of ``path``. ``snapshot`` returns the notebook; none of what it returns changes
    afterwards."""

    def __init__(self, path: Path, snapshot: Callable[[], dict[str, Any]]) -> None:
        self._path, self._snapshot = path, snapshot
        self._changed, self._cell = asyncio.Event(), asyncio.Event()
        self._took = 0.0
        self._writing = asyncio.Lock()
        self.problem = ""  # why the last write failed

    def changed(self) -> None:
        """Note that a cell has printed something."""
        self._changed.set()

    def cell_ended(self) -> None:
        """Note that a cell has begun or ended: this is written soon."""
        self._cell.set()
        self._changed.set()

    async def keep(self) -> None:
        """Write what changes until it is cancelled."""
        while True:
            await self._changed.wait()
            # Not by asyncio.wait_for: before Python 3.12 it can swallow the cancellation.
            waiting = asyncio.ensure_future(self._cell.wait())
            try:
                await asyncio.wait({waiting}, timeout=_PRINTS)
            finally:
                waiting.cancel()
            await self.write()
            await asyncio.sleep(max(_LEAST, min(self._took * _SHARE, _MOST)))

    async def write(self) -> None:
        """Write the notebook as it is now, whole or not at all; `problem` says why not."""
        async with self._writing:
            self._changed.clear()
            self._cell.clear()
            notebook, began = self._snapshot(), time.monotonic()
            writing = asyncio.ensure_future(asyncio.to_thread(self._write, notebook))
            try:
                self.problem = await asyncio.shield(writing)
            finally:  # the thread goes on if this is cancelled, and the next writes the same file
                await asyncio.wait({writing})
            self._took = time.monotonic() - began

    def _write(self, notebook: dict[str, Any]) -> str:
        new = self._path.with_name(f".{self._path.name}.new")
        try:
            text = json.dumps(notebook, ensure_ascii=False, indent=1)
            new.write_text(text + "\n", encoding="utf-8", errors="replace")
            new.replace(self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                new.unlink()
            return f"{self._path.name} cannot be written: {reason(error)}"
        return ""
