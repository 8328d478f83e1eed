"""Announcements on the Hub's pages. A page never waits for the database: it shows what was read
in the background, and none while the database is away."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from portal.models.announcement import Announcement
from portal.periodic import Periodic
from portal.store import Store

EVERY = 15.0  # seconds between two reads


class AnnouncementCache:
    """Announcements that pages show, read in the background; a single instance per Hub."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: Sequence[Announcement] = ()
        self._reading = Periodic(
            "The reading of announcements",
            self._read,
            EVERY,
            store.log,
            failed="Announcements could not be read",
            level=logging.DEBUG,  # the store says so in the log, once
        )

    def start(self) -> None:
        """Start to read, in the running event loop; a second call does nothing."""
        self._reading.start()

    def now(self) -> list[Announcement]:
        """Return the announcements to show now, newest first. Call it in the event loop."""
        self.start()
        moment = time.time()
        return [item for item in self._known if item.starts_at <= moment < item.ends_at]

    async def _read(self) -> None:
        try:
            self._known = await self._store.announcements.active(time.time())
        except Exception:
            self._known = ()
            raise
