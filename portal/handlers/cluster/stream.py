"""``api/v1/events`` and ``api/v1/changes``: news of the cluster, as a stream or on request.

A browser's EventSource sends the login's cookie, but no header; its request is no plain visit
either (Sec-Fetch-Mode: cors), so it needs the argument ``_xsrf`` (see
portal/handlers/base/base.py).
"""

from __future__ import annotations

import contextlib
from typing import Annotated

from pydantic import Field

from portal.models import Frozen
from portal.models.cluster.dashboard import Changes

from ..base.endpoint import Endpoint, Operation, Query
from ..base.event_stream import EventStream, StreamOperation
from .metrics import Metrics

_STEPS = 12  # versions that a client may be behind; for more, the board is the shorter answer


class EventsQuery(Query):
    """``last_event_id`` is for clients that cannot send the header Last-Event-ID."""

    last_event_id: Annotated[str | None, Field(max_length=100)] = None


class EventsEndpoint(EventStream):
    """Event stream of the cluster."""

    path = "events"
    timed = False  # it lasts as long as its viewer stays

    @StreamOperation("Changes as server-sent events.", query=EventsQuery)
    async def on_get(self) -> None:
        """Send events 'reset', 'change' and 'own'.

        'reset': fetch the board anew; 'change': Changes, the same for all who may see the same;
        'own': what is yours, with its names. The id of an event, sent back as Last-Event-ID,
        continues after it. A stream ends after some minutes; connect again then.
        """
        self.view  # noqa: B018 - 503 while there is nothing to tell
        self.begin()
        metrics: Metrics = self.settings["metrics"]
        with metrics.viewers.track_inprogress():
            await self.send(self._events)

    async def _events(self) -> None:
        last = self.query.last_event_id or self.request.headers.get("Last-Event-ID")
        events = self.parts.dashboard.events(self.person, last)
        async with contextlib.aclosing(events):
            async for event in events:
                await self.written(event)


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
