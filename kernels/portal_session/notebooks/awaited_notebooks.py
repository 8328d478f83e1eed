"""Notebooks whose kernel is being taken up from a former session.

A notebook that is opened in these seconds would lack the outputs that the kernel is about to send,
and JupyterLab would start another kernel for it.
"""

from __future__ import annotations

import asyncio
import contextlib

LONGEST = 20.0  # seconds after which a notebook is opened all the same


class AwaitedNotebooks:
    """Notebooks by path, as the contents manager names them."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def expect(self, path: str) -> None:
        """Delay opening this notebook until `arrived`."""
        path = path.strip("/")
        if path not in self._events:
            self._events[path] = asyncio.Event()
            asyncio.get_running_loop().call_later(LONGEST, self.arrived, path)

    def arrived(self, path: str) -> None:
        """Stop delaying this notebook."""
        event = self._events.pop(path.strip("/"), None)
        if event is not None:
            event.set()

    async def wait(self, path: str) -> None:
        """Wait until the notebook can be opened."""
        event = self._events.get(path.strip("/"))
        if event is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(event.wait(), LONGEST)
