"""Periodic work: a coroutine function that runs again and again, and that no failure ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from .errors import PortalError
from .logs.request import leave_request

_AGAIN = 3.0  # seconds between two cancellations: what a task cleans up takes less


async def end_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait for their end; cancel again what goes on, since asyncio.wait_for before
    Python 3.12 can lose a cancellation (CPython issue 86296)."""
    living = set(tasks)
    while living:
        for task in living:
            task.cancel()
        _, living = await asyncio.wait(living, timeout=_AGAIN)
    await asyncio.gather(*tasks, return_exceptions=True)


class Periodic:
    """Loop that runs ``work``, rests for ``pause`` seconds, and begins again, until it is stopped.

    ``pause`` may be a function of the last result: the value that ``work`` returned, the error that
    it raised, or None before the first run. An event ``wake`` ends the rest; what else sets it
    within ``gather`` seconds is served by the same run. ``later``: the loop begins with a rest.

    An outage is logged once, with ``failed`` before the error's words, and so is its end
    (``again``). ``expected`` errors are a sentence of this ``level``; others have a traceback.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], Awaitable[object]],
        pause: float | Callable[[Any], float],
        log: Any,
        *,
        failed: str = "",
        again: str = "",
        level: int = logging.WARNING,
        expected: type[Exception] = PortalError,
        wake: asyncio.Event | None = None,
        gather: float = 0.0,
        later: bool = False,
    ) -> None:
        self._work, self._pause, self._log = work, pause, log
        self._failed = failed or f"{name} failed; retrying"
        self._again = again or f"{name} continues."
        self._level, self._expected = level, expected
        self._wake, self._gather, self._later = wake, gather, later
        self._trouble: tuple[int, str] | None = None  # its level and words
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the loop as a task of the running event loop; a second call does nothing."""
        if self._task is None:
            self._task = asyncio.ensure_future(self.run())

    async def stop(self) -> None:
        """Cancel the task and wait for its end."""
        if self._task is not None:
            await end_tasks(self._task)
            self._task = None

    async def run(self) -> None:
        """Run the loop until cancelled."""
        leave_request()  # one may have begun it
        if self._later:
            await self._rest(None)
        while True:
            if self._wake is not None:
                self._wake.clear()
            await self._rest(await self._run_once())

    async def _run_once(self) -> object:
        """Return the result of the work, or its error."""
        try:
            result = await self._work()
        except Exception as error:
            self._note(error)
            return error
        if self._trouble is not None:
            self._log.log(min(self._trouble[0], logging.WARNING), "%s", self._again)
            self._trouble = None
        return result

    def _note(self, error: Exception) -> None:
        """Log the error, unless it is that of the last run."""
        expected = isinstance(error, self._expected)
        trouble = self._level if expected else logging.WARNING, f"{type(error).__name__}: {error}"
        if trouble == self._trouble:
            return
        self._trouble = trouble
        if expected:
            self._log.log(self._level, "%s: %s", self._failed, error)
        else:
            self._log.error("%s", self._failed, exc_info=error)

    async def _rest(self, result: object) -> None:
        pause = self._pause(result) if callable(self._pause) else self._pause
        if self._wake is None:
            await asyncio.sleep(pause)
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), pause)
            await asyncio.sleep(self._gather)
