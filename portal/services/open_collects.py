"""What a class of sessions has still to give, asked for once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from portal.cache import SharedAnswer
from portal.models.course.live import Collect
from portal.models.session.session import SessionRecord

if TYPE_CHECKING:
    from .core import CoreParts

_AGE = 2.0  # seconds for which an answer is told to all

_Open = Mapping[str, list[tuple[Collect, frozenset[str]]]]


class OpenCollects:
    """One a service."""

    def __init__(self, parts: CoreParts) -> None:
        waiting = parts.collecting.waiting
        self._asked = SharedAnswer[_Open](waiting, ttl=_AGE, patience=1.0, first={})

    async def of(self, record: SessionRecord) -> tuple[Collect, ...]:
        """Those of the session's course for which its person gave nothing yet."""
        found = (await self._asked.get()).get(record.course, ())
        return tuple(collect for collect, gave in found if record.user not in gave)

    def forget(self) -> None:
        """Something has changed."""
        self._asked.invalidate()
