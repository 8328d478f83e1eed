"""Calls that may never return (a dead NFS server, a hanging sssd), away from the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class StillRunning(TimeoutError):
    """A call takes longer than its caller waits. What the call itself raises is never this."""


class Blocking:
    """Runs calls by name, each in a thread of its own and never two for one name.

    What hangs holds its thread for ever: in the event loop's pool, which others need, a few of
    them would stop the Hub.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Future[Any]] = {}

    async def call(self, name: Hashable, work: Callable[[], T], seconds: float) -> T:
        """What ``work`` gives or raises; StillRunning when that takes longer than ``seconds``.

        While a call of that ``name`` still runs, its answer is waited for, and ``work`` is not
        called again.
        """
        answer: asyncio.Future[T] | None = self._running.get(name)
        if answer is None:
            answer = _in_thread(str(name), work)
            self._running[name] = answer
            answer.add_done_callback(lambda _: self._running.pop(name, None))
        done, _ = await asyncio.wait({answer}, timeout=seconds)
        if not done:
            raise StillRunning(f"{name} takes longer than {seconds:g} s")
        return answer.result()


def _in_thread(name: str, work: Callable[[], T]) -> asyncio.Future[T]:
    """Run ``work`` in a daemon thread, which does not hold up the Hub's own end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def deliver(result: T | None, error: Exception | None) -> None:
        if isinstance(error, StopIteration):  # no future takes that one
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
        except BaseException as exc:  # sys.exit() in a hook is not for the Hub
            error = RuntimeError(f"ended by {exc!r}")
        try:
            loop.call_soon_threadsafe(deliver, result, error)
        except RuntimeError:
            return  # the Hub has stopped meanwhile, and its loop is closed

    threading.Thread(target=run, name=f"portal-{name}"[:60], daemon=True).start()
    return future
