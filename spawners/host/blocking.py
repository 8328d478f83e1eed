"""Calls that may never return (a dead NFS server, a hanging sssd), off the event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")
_MOST_IDLE = 8  # idle threads kept for the next calls


class StillRunning(TimeoutError):
    """Timeout of a call's caller, never raised by the call itself."""


class _Worker:
    """Daemon thread, which does not delay the Hub's exit. It is reused for one call after another,
    since starting a thread blocks the loop until it runs."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def do(self, call: Callable[[], None] | None, name: str = "idle") -> None:
        """Run this call next, under this name; None: end."""
        self._thread.name = f"portal-{name}"[:60]
        self._calls.put(call)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # frees what it holds


class Blocking:
    """Runner of calls by name, each in a thread of its own and never two for one name.

    A call that hangs holds its thread for ever: in the event loop's pool, which others need, a few
    of them would stop the Hub.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Future[Any]] = {}
        self._idle: list[_Worker] = []

    async def call(self, name: Hashable, work: Callable[[], T], seconds: float) -> T:
        """Return or raise what ``work`` does; StillRunning if that takes longer than ``seconds``.

        While a call of that ``name`` still runs, its result is awaited, and ``work`` is not
        called again.
        """
        future: asyncio.Future[T] | None = self._running.get(name)
        if future is None:
            future = self._in_thread(str(name), work)
            self._running[name] = future
            future.add_done_callback(lambda _: self._running.pop(name, None))
        done, _ = await asyncio.wait({future}, timeout=seconds)
        if not done:
            raise StillRunning(f"{name} takes longer than {seconds:g} s")
        return future.result()

    def _in_thread(self, name: str, work: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        worker = self._idle.pop() if self._idle else _Worker()

        def deliver(result: T | None, error: Exception | None) -> None:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(worker)
            else:
                worker.do(None)
            if isinstance(error, StopIteration):  # futures refuse that one
                error = RuntimeError(repr(error))
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]  # T may be None itself

        def run() -> None:
            result: T | None = None
            error: Exception | None = None
            try:
                result = work()
            except Exception as exc:
                error = exc
            except BaseException as exc:  # sys.exit() in a hook must not end the Hub
                error = RuntimeError(f"ended by {exc!r}")
            try:
                loop.call_soon_threadsafe(deliver, result, error)
            except RuntimeError:
                return  # the Hub has stopped meanwhile, and its loop is closed

        worker.do(run, name)
        return future
