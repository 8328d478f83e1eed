"""Turns of users at something that few can use at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import AsyncIterator


class Turns:
    """Turns of users, of whom ``most`` are served at once, each once at a time. Users who wait are
    served one after the other, whatever the number of their requests; those of one user in their
    order."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._served: set[str] = set()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @contextlib.asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        """Wait for the user's turn, which lasts as long as the block."""
        mine = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(mine)
        self._serve()
        try:
            await mine
            yield
        finally:
            if mine.done() and not mine.cancelled():
                self._served.discard(user)
                if user in self._waiting:  # behind all others
                    self._waiting.move_to_end(user)
            self._serve()

    def _serve(self) -> None:
        for user in list(self._waiting):
            if len(self._served) >= self._most:
                return
            if user in self._served:
                continue
            waiting = self._waiting[user]
            while waiting and user not in self._served:
                first = waiting.popleft()
                if not first.done():  # else its request was cancelled
                    first.set_result(None)
                    self._served.add(user)
            if not waiting:
                del self._waiting[user]
