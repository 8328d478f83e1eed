"""A spawner that starts nothing: what a launch costs in JupyterHub itself."""

from __future__ import annotations

import os
from typing import Any

from jupyterhub.spawner import Spawner


class NoopSpawner(Spawner):
    """Every server is the benchmarks' one responder."""

    running = False

    async def start(self) -> str:
        """The responder's URL, at once."""
        self.running = True
        return f"http://127.0.0.1:{os.environ['BENCH_PORT']}"

    async def poll(self) -> int | None:
        """It runs from start to stop."""
        return None if self.running else 0

    async def stop(self, now: bool = False) -> Any:
        """Forget it."""
        self.running = False
