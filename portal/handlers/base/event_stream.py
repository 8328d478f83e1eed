"""Base class of endpoints that answer with server-sent events for as long as their viewer stays."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable

from tornado.iostream import StreamClosedError

from portal.errors import Unavailable

from .endpoint import Endpoint, Operation

_SLOWEST = 30.0  # seconds that a viewer may take to read one event
# After this the browser reconnects by itself and goes on where it was: whoever lost the login or a
# role meanwhile is shown no more.
_LONGEST = 300.0

StreamOperation = functools.partial(Operation, media="text/event-stream", errors=(429,))


class EventStream(Endpoint):
    """Base class of event streams."""

    _sending: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Prepare the response. Raises Unavailable while the service ends: the stream would be cut
        off, which the proxy does not tell."""
        if self.settings["ending"].is_set():
            raise Unavailable("The portal's service is being restarted.")
        self.set_header("X-Accel-Buffering", "no")  # nginx

    async def send(self, events: Callable[[], Awaitable[None]]) -> None:
        """Run ``events``, which writes them, and end the response.

        It is cancelled when the viewer leaves and after some minutes; for HEAD it does not run.
        """
        if self.request.method == "HEAD":
            self.finish()
            return
        self._sending = asyncio.ensure_future(self._limited(events))
        with contextlib.suppress(asyncio.CancelledError):
            await self._sending
        if not self._finished:
            self.finish()

    async def _limited(self, events: Callable[[], Awaitable[None]]) -> None:
        with contextlib.suppress(StreamClosedError, TimeoutError):
            async with asyncio.timeout(_LONGEST):
                await events()

    async def written(self, event: str | bytes) -> None:
        """Write an event, and wait until the viewer has it. Raises TimeoutError."""
        self.write(event)
        async with asyncio.timeout(_SLOWEST):
            await self.flush()

    def on_connection_close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
