"""Open collections of courses, read once for all sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from portal.cache import SharedAnswer
from portal.models.course.live import Collect
from portal.models.session.session import SessionRecord

if TYPE_CHECKING:
    from .core import CoreServices

_AGE = 2.0  # seconds for which an answer is shared

_Open = Mapping[str, list[tuple[Collect, frozenset[str]]]]


class OpenCollects:
    """Open collections of all courses. One instance per service."""

    def __init__(self, parts: CoreServices) -> None:
        waiting = parts.collecting.waiting
        self._asked = SharedAnswer[_Open](waiting, ttl=_AGE, patience=1.0, first={})

    async def of_session(self, record: SessionRecord) -> tuple[Collect, ...]:
        """Return those of the session's course to which its person has given nothing yet."""
        collects = (await self._asked.get()).get(record.space, ())
        return tuple(collect for collect, givers in collects if record.user not in givers)

    def forget(self) -> None:
        """Discard the shared answer after a change."""
        self._asked.invalidate()
