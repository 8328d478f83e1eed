"""Launches go on one after the other, each in a turn of the event loop.

JupyterHub's own work for one launch (tokens, an OAuth client, several commits) holds the loop for
10 to 20 ms. When many people launch at the same moment, all of it would happen in one turn, and for
seconds nobody else's page, no job's answer and no session's port would be heard.
"""

from __future__ import annotations

import asyncio


class Turns:
    """A queue in which everyone waits until the loop has seen to everything else."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def take(self) -> None:
        """Wait for this caller's turn; the next one begins after this caller has stopped again."""
        async with self._lock:
            await asyncio.sleep(0)
