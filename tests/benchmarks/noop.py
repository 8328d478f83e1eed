"""Spawner that starts nothing: the cost of a launch in JupyterHub itself."""

from __future__ import annotations

import os
from typing import Any

from jupyterhub.spawner import Spawner


class NoopSpawner(Spawner):
    """Spawner whose servers are all the benchmarks' responder."""

    running = False

    async def start(self) -> str:
        """Return the responder's URL at once."""
        self.running = True
        return f"http://127.0.0.1:{os.environ['BENCH_PORT']}"

    async def poll(self) -> int | None:
        """Return None from start to stop, else 0."""
        return None if self.running else 0

    async def stop(self, now: bool = False) -> Any:
        """Mark the server as stopped."""
        self.running = False
