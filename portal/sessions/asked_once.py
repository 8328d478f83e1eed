"""An answer that a thousand sessions want every few seconds, asked for once for all of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from portal.errors import PortalError

T = TypeVar("T")


class AskedOnce(Generic[T]):
    """``ask`` is asked at most every ``age`` seconds, by whoever comes first; the others share
    the answer. Where there is none (the database is away), the last one stays: first ``empty``.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[T]],
        empty: T,
        *,
        age: float,
        log: logging.Logger,
        patience: float = 1.0,
    ) -> None:
        self._ask, self._age, self._log, self._patience = ask, age, log, patience
        self._last = empty
        self._asked_at = float("-inf")  # by the monotonic clock
        self._asking: asyncio.Task[None] | None = None

    async def get(self) -> T:
        """The answer, not older than ``age`` where there is one within ``patience`` seconds.

        Raises nothing.
        """
        under_way = self._asking is not None and not self._asking.done()
        if not under_way and time.monotonic() - self._asked_at >= self._age:
            self._asked_at = time.monotonic()
            self._asking = asyncio.create_task(self._renew())
            under_way = True
        # One that takes long is waited for by those who came within its patience only.
        if under_way and time.monotonic() - self._asked_at < self._patience:
            assert self._asking is not None
            left = self._asked_at + self._patience - time.monotonic()
            await asyncio.wait({self._asking}, timeout=max(0.0, left))
        return self._last

    def forget(self) -> None:
        """Something has changed: the next one who wants it asks again."""
        self._asked_at = float("-inf")
        self._asking = None

    async def _renew(self) -> None:
        asking = asyncio.current_task()
        try:
            answer = await self._ask()
        except PortalError as error:
            self._log.debug("The last answer stays: %s", error)
        except Exception:
            self._log.exception("What sessions are told could not be read")
        else:
            if self._asking in (asking, None):  # else a newer question is under way
                self._last = answer
