"""End of the sessions of people who are no longer in a course."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from portal.errors import PortalError
from portal.hubapi import HubApi
from portal.models.course.course import StoredCourse
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.stop_reason import StopCode, StopReason
from portal.store import Store

_AT_ONCE = 8  # questions to the Hub


@dataclass(frozen=True)
class Unenrolment:
    """Stop of the course's sessions of people who left it. Their work stays in their home."""

    store: Store
    hub: HubApi
    log: logging.Logger

    async def left(self, stored: StoredCourse, people: Sequence[str]) -> None:
        """Stop their sessions; the Hub may still be stopping some of them afterwards. Raises
        StoreUnavailable."""
        gone, limit = set(people), asyncio.Semaphore(_AT_ONCE)
        records = await self.store.sessions.of_space(stored.name, time.time())
        await asyncio.gather(
            *(
                self._stop(stored, record, limit)
                for record in records
                if record.user in gone and record.state is not SessionState.ENDED
            )
        )

    async def _stop(
        self, stored: StoredCourse, record: SessionRecord, limit: asyncio.Semaphore
    ) -> None:
        title = stored.course.title.replace('"', "'")
        words = f"You are no longer in the course '{title}'. Your files are in your home directory."
        try:
            reason = StopReason(code=StopCode.COURSE_OVER, words=words)
            async with limit:
                await self.hub.stop_server(record.user, record.server, reason=reason)
        except (PortalError, ValueError) as error:
            self.log.warning(
                "The session of %s in the course %s could not be stopped: %s",
                *(record.user, stored.name, error),
            )
