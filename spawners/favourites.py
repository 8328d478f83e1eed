"""What everybody likes and used last, kept for the order of their launch pages.

It stands in the database, which the launch page does not wait for: what is known is shown, and
where nothing is known, the catalog's own order.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict

from portal.catalog.habits import NO_HABITS, Habits, habits_of
from portal.errors import StoreUnavailable
from portal.store import Store

_AGE = 20.0  # seconds for which an answer is fresh
_PATIENCE = 0.3  # seconds that a page waits for the database
_MOST = 2000  # people that are remembered


class Favourites:
    """Everyone's habits, as far as they were asked for. ``of(user)`` raises nothing."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._known: OrderedDict[str, tuple[float, Habits]] = OrderedDict()
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def of(self, user: str) -> Habits:
        """What is known of this person now."""
        at, known = self._known.get(user, (float("-inf"), NO_HABITS))
        if self._store is None or time.monotonic() - at < _AGE:
            return known
        task = self._asking.get(user)
        if task is None:
            task = self._asking[user] = asyncio.create_task(self._ask(self._store, user))
            task.add_done_callback(lambda _: self._asking.pop(user, None))
        await asyncio.wait({task}, timeout=_PATIENCE)
        return self._known.get(user, (at, known))[1]

    async def _ask(self, store: Store, user: str) -> None:
        try:
            habits = await habits_of(store, user)
        except StoreUnavailable:
            return  # the store says so in the log
        self._known[user] = (time.monotonic(), habits)
        self._known.move_to_end(user)
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
