"""Living portal sessions, by the last answer of the database."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..cache import SharedAnswer
from ..errors import PortalError
from ..models.session.session import SessionRecord

if TYPE_CHECKING:
    from ..store import Store

_PATIENCE = 1.0  # seconds that a refresh waits for the database; a later answer is for the next


class LivingSessions:
    """Living sessions, read by one query at a time; while the database is away or slow, those of
    the last answer."""

    def __init__(self, store: Store | None, log: logging.Logger) -> None:
        self._store, self._log = store, log
        self._complaint = ""
        self._living = SharedAnswer[tuple[SessionRecord, ...]](ttl=0.0, first=())

    @property
    def records(self) -> tuple[SessionRecord, ...]:
        """Sessions of the last answer."""
        return self._living.last or ()

    async def refresh(self) -> None:
        """Query the database, and wait a moment for the answer; raises nothing."""
        store = self._store
        if store is not None:
            await self._living.get(lambda: self._ask(store), patience=_PATIENCE)

    async def _ask(self, store: Store) -> tuple[SessionRecord, ...]:
        try:
            records = tuple(await store.sessions.living())
        except PortalError as error:
            if error.message != self._complaint:
                self._log.warning("Sessions are out of date: %s", error)
            self._complaint = error.message
            raise
        self._complaint = ""
        return records
