"""Base classes for the log of a build or test, in pieces or as an event stream."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Annotated, ClassVar

from pydantic import Field

from portal.catalog.builds.scheduler import WorkKind
from portal.errors import TooManyRequests
from portal.models import Frozen
from portal.models.catalog.catalog import Build, EnvironmentTest
from portal.models.catalog.image_job import LIVE

from ..base.endpoint import Endpoint, Query
from ..base.event_stream import EventStream

WORK_ID = "[0-9]{1,9}"
_EVERY = 1.0  # seconds between two polls
_BEAT = 20  # polls without news until a comment tells proxies that the stream is alive
_MOST = 20  # streams at the same time, of everyone
_EACH = 5  # of one person, so that nobody takes all of them


class LogQuery(Query):
    """Offset in a log, in bytes."""

    offset: Annotated[
        int,
        Field(
            ge=0, le=2**53, description="'next' of the previous answer; 0 for the start of the log."
        ),
    ] = 0


class LogText(Frozen):
    """Piece of a log: plain text, about 64 KiB at most.

    ``next``: the offset to go on from; the same as was asked for if there is nothing more now.
    """

    text: str
    next: int


class WorkEndpoint(Endpoint):
    """Base class of endpoints for a single build or test."""

    kind: ClassVar[WorkKind]

    @abstractmethod
    async def work(self, id: str) -> Build | EnvironmentTest:
        """Return the build or test, if this person may see it. Raises NotFound."""

    async def log_text(self, id: str, offset: int) -> LogText:
        """Return a piece of its log."""
        text, end = await self.parts.build_scheduler.log_text(self.kind, int(id), offset)
        return LogText(text=text, next=end)


class WorkEvents(WorkEndpoint, EventStream):
    """Base class of both event streams."""

    _open: ClassVar[set[WorkEvents]] = set()

    async def stream(self, id: str) -> None:
        """Send events until after the last state, or for some minutes.

        'build' or 'test' is its state, at first and on each change; 'log' is new text, with the
        offset after it.
        """
        await self.work(id)
        self.begin()
        own_streams = sum(stream.person.name == self.person.name for stream in self._open)
        if own_streams >= _EACH or len(self._open) >= _MOST:
            raise TooManyRequests(
                "Too many logs are being streamed. Request the log in parts instead."
            )
        self._open.add(self)
        try:
            await self.send(lambda: self._follow(id, self.query.offset))
        finally:
            self._open.discard(self)

    async def _follow(self, id: str, offset: int) -> None:
        last, quiet = "", 0
        while not self.settings["ending"].is_set():
            work = await self.work(id)
            more = True
            while more:
                piece = await self.log_text(id, offset)
                more = piece.next > offset
                offset = piece.next
                if piece.text:
                    await self._event("log", piece.model_dump_json())
                    quiet = 0
            state = work.model_dump_json()
            if state != last:
                await self._event(self.kind, state)
                last, quiet = state, 0
            if work.state not in LIVE:
                return
            quiet += 1
            if quiet % _BEAT == 0:
                await self.written(": still there\n\n")
            await asyncio.sleep(_EVERY)

    async def _event(self, name: str, data: str) -> None:
        # JSON has no raw newlines, so one line of data is enough.
        await self.written(f"event: {name}\ndata: {data}\n\n")
