"""Announcements on the Hub's pages. A page never waits for the database: it shows what was read
in the background, and nothing while the database is away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from portal.errors import PortalError
from portal.models.announcement import Announcement
from portal.store import Store

EVERY = 15.0  # seconds between two looks


class Announced:
    """One per Hub: ``now`` is what pages show."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: Sequence[Announcement] = ()
        self._reading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read, in the running event loop; a second call does nothing."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._read())

    def now(self) -> list[Announcement]:
        """Those to be seen at this moment, the newest first. To be called in the event loop."""
        self.start()
        moment = time.time()
        return [one for one in self._known if one.starts_at <= moment < one.ends_at]

    async def _read(self) -> None:
        while True:
            try:
                self._known = await self._store.announcements.active(time.time())
            except PortalError:  # the store says so in the log, once
                self._known = ()
            except Exception:  # a row that this version cannot read must not end the reading
                self._store.log.exception("Announcements could not be read")
                self._known = ()
            await asyncio.sleep(EVERY)
