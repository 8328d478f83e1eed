"""``api/v1/events`` and ``api/v1/changes``: news of the cluster, as a stream or on request.

A browser's EventSource sends the login's cookie, but no header; its request is no plain visit
either (Sec-Fetch-Mode: cors), so it needs the argument ``_xsrf`` (see
portal/handlers/base/base.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated

from pydantic import Field
from tornado.iostream import StreamClosedError

from portal.errors import Unavailable
from portal.models import Frozen
from portal.models.cluster.dashboard import Changes

from ..base.endpoint import Endpoint, Operation, Query
from .metrics import Metrics

_SLOWEST = 30.0  # seconds that a viewer may take to read one event
# After this the browser reconnects by itself and goes on where it was: whoever lost the login or a
# role meanwhile is shown no more.
_LONGEST = 300.0
_STEPS = 12  # versions that a client may be behind; for more, the board is the shorter answer


class EventsQuery(Query):
    """``last_event_id`` is for clients that cannot send the header Last-Event-ID."""

    last_event_id: Annotated[str | None, Field(max_length=100)] = None


class EventsEndpoint(Endpoint):
    """Event stream of the cluster."""

    path = "events"
    timed = False  # it lasts as long as its viewer stays
    _sending: asyncio.Task[None] | None = None

    @Operation(
        "Changes as server-sent events.",
        query=EventsQuery,
        media="text/event-stream",
        errors=(429,),
    )
    async def on_get(self) -> None:
        """Send events 'reset', 'change' and 'own'.

        'reset': fetch the board anew; 'change': Changes, the same for all who may see the same;
        'own': what is yours, with its names. The id of an event, sent back as Last-Event-ID,
        continues after it. A stream ends after some minutes; connect again then.
        """
        self.view  # noqa: B018 - 503 while there is nothing to tell
        if self.settings["ending"].is_set():  # it would be cut off, which the proxy does not tell
            raise Unavailable("The portal's service is being restarted.")
        self.set_header("X-Accel-Buffering", "no")  # nginx
        if self.request.method == "HEAD":
            self.finish()
            return
        metrics: Metrics = self.settings["metrics"]
        self._sending = asyncio.ensure_future(self._send())
        with metrics.viewers.track_inprogress(), contextlib.suppress(asyncio.CancelledError):
            await self._sending
        if not self._finished:
            self.finish()

    async def _send(self) -> None:
        last = self.query.last_event_id or self.request.headers.get("Last-Event-ID")
        events = self.parts.dashboard.events(self.person, last)
        with contextlib.suppress(StreamClosedError, TimeoutError):
            async with asyncio.timeout(_LONGEST), contextlib.aclosing(events):
                async for event in events:
                    self.write(event)
                    async with asyncio.timeout(_SLOWEST):
                        await self.flush()

    def on_connection_close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()


class ChangesQuery(Query):
    """Version that the client has, as named by the board or the previous changes."""

    stream: Annotated[str, Field(max_length=100)]
    version: Annotated[int, Field(ge=0, le=2**53)]


class ChangesAnswer(Frozen):
    """Changes since a version. ``reset``: it is not known any more; fetch the board anew."""

    reset: bool
    changes: tuple[Changes, ...]
    own: Changes | None


class ChangesEndpoint(Endpoint):
    """Polling for clients that cannot have the event stream."""

    path = "changes"

    @Operation("Changes since a version.", query=ChangesQuery)
    async def on_get(self) -> ChangesAnswer:
        """Ask every few seconds if 'events' does not get through."""
        dashboard, query = self.parts.dashboard, self.query
        behind = self.view.version - query.version
        changes = None
        if behind <= _STEPS:
            changes = dashboard.changes_since(self.person, query.stream, query.version)
        return ChangesAnswer(
            reset=changes is None,
            changes=tuple(changes or ()),
            own=dashboard.own(self.person),
        )


ENDPOINTS = (EventsEndpoint, ChangesEndpoint)
