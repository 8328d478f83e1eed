"""Announcements on the Hub's pages. A page never waits for the database: it shows what was read
in the background, and none while the database is away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from portal.errors import PortalError
from portal.models.announcement import Announcement
from portal.store import Store

EVERY = 15.0  # seconds between two reads


class AnnouncementCache:
    """Announcements that pages show, read in the background; a single instance per Hub."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: Sequence[Announcement] = ()
        self._reading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to read, in the running event loop; a second call does nothing."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._read())

    def now(self) -> list[Announcement]:
        """Return the announcements to show now, newest first. Call it in the event loop."""
        self.start()
        moment = time.time()
        return [item for item in self._known if item.starts_at <= moment < item.ends_at]

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
