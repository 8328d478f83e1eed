"""The living portal sessions, as the database last said them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ..errors import PortalError
from ..models.session import SessionRecord

if TYPE_CHECKING:
    from ..store import Store

_PATIENCE = 1.0  # seconds that a refresh waits for the database; a later answer is for the next


class LivingSessions:
    """Asks once at a time; a database that is away or slow leaves the last answer."""

    def __init__(self, store: Store | None, log: logging.Logger) -> None:
        self._store, self._log = store, log
        self._asking: asyncio.Task[None] | None = None
        self._complaint = ""
        self.records: tuple[SessionRecord, ...] = ()

    async def refresh(self) -> None:
        """Ask, and wait a moment for the answer; raises nothing."""
        if self._store is None:
            return
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(self._store))
        await asyncio.wait({self._asking}, timeout=_PATIENCE)

    async def _ask(self, store: Store) -> None:
        try:
            self.records = tuple(await store.sessions.living())
            self._complaint = ""
        except PortalError as error:
            if error.message != self._complaint:
                self._log.warning("Sessions are those of the last answer: %s", error)
            self._complaint = error.message
        except Exception:
            self._log.exception("The sessions could not be read")
