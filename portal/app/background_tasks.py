"""Background tasks of the service: the database's upgrade, and the loops, among them those that
keep the dashboard and look for idle GPUs.

Pages are available at once; they show what is not ready yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from portal.assembly import Services
from portal.periodic import Periodic, end_tasks

_RETRY = (1.0, 30.0)  # seconds to the second try, and their maximum
_CHECK = 15.0  # seconds between checks of a database that is otherwise not used


class BackgroundTasks:
    """Lifetime of the service's parts: started, kept running, closed."""

    def __init__(self, parts: Services, more: Mapping[str, Callable[[], Awaitable[None]]]) -> None:
        """Initialize. ``more``: further loops by name."""
        self.parts, self.log, self._more = parts, parts.log, more
        self._tasks: list[asyncio.Task[None]] = []
        self._store = self._store_check()

    def start(self) -> None:
        """Start the tasks; return at once."""
        self._store.start()
        parts = self.parts
        loops = {
            "dashboard": parts.dashboard.run,
            "idle GPU check": parts.idle.run,
            "mail task": lambda: parts.notices.run(lambda: parts.dashboard.view),
            "catalog file check": parts.curator.run,
            "build and test scheduler": parts.build_scheduler.run,
            **self._more,
        }
        for feature in parts.of_features.values():
            loops |= getattr(feature, "tasks", {})
        self._tasks = [asyncio.create_task(self._restarted(*loop)) for loop in loops.items()]

    async def close(self) -> None:
        """Cancel the tasks, then release what the parts hold."""
        await asyncio.gather(self._store.stop(), end_tasks(*self._tasks))
        await self.parts.store.close()
        self.parts.cluster.close()

    def _store_check(self) -> Periodic:
        """Return the loop that brings the database to this version's schema, then checks it now and
        then: pages say since when it is away."""
        store, upgraded, retry = self.parts.store, False, _RETRY[0]

        async def check() -> None:
            nonlocal upgraded
            await (store.check() if upgraded else store.upgrade())
            upgraded = True
            await store.keep_room()

        def pause(result: object) -> float:
            nonlocal retry
            if not isinstance(result, Exception):
                retry = _RETRY[0]
                return _CHECK
            now, retry = retry, min(2 * retry, _RETRY[1])
            return now

        return Periodic(
            "The database check",
            check,
            pause,
            self.log,
            failed="The database is not ready",
            again="The database is ready.",
            level=logging.ERROR,
        )

    async def _restarted(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run ``run`` for ever: it is restarted when it ends or fails."""
        while True:
            try:
                await run()
                self.log.error("The %s exited unexpectedly; restarting it.", name)
            except Exception:
                self.log.exception("The %s failed; restarting it", name)
            await asyncio.sleep(_RETRY[0])
