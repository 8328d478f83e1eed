"""Event streams: all viewers get the same bytes, and none makes the others wait."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator

from ..errors import TooManyRequests, Unavailable
from .builder import Items
from .changes import Step, event, head, own_frame
from .view import ClusterView

_RETRY = b"retry: 2000\n\n"  # milliseconds until a browser tries again
_HEARTBEAT = b": the stream is alive\n\n"
_QUEUE = 8  # steps that a viewer may lag behind before it is told to begin anew


class EventStream(AsyncIterator[bytes]):
    """Stream of one viewer: server-sent events as bytes, until ``close``.

    ``change``: changes for everybody, as JSON of ``Changes``. ``own``: follows it, with the
    changes to the viewer's own items, with names and ``mine``. ``reset``: begin anew, that is, get
    the board and lists again; the data names the version from which changes follow.
    """

    def __init__(self, user: str, named: bool, heartbeat: float) -> None:
        self.user, self.named = user, named
        self._heartbeat = heartbeat
        self.closed = False
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._queue.put_nowait(_RETRY)

    def close(self) -> None:
        """End the stream, also for a reader that waits for its next event."""
        self.closed = True
        self._queue.put_nowait(b"")

    async def aclose(self) -> None:
        """End the stream, for contextlib.aclosing."""
        self.close()

    async def __anext__(self) -> bytes:
        if self.closed:
            raise StopAsyncIteration
        try:
            frame = await asyncio.wait_for(self._queue.get(), self._heartbeat)
        except TimeoutError:
            return _HEARTBEAT
        if self.closed:
            raise StopAsyncIteration
        return frame

    def begin(self, view: ClusterView | None, steps: list[Step] | None) -> None:
        """Queue the first events: the missed steps, or ``reset`` if these are not known; then all
        of the viewer's own items."""
        if view is None:
            return
        missed = [event("reset", head(view))]
        if steps is not None:
            missed = [step.frames[self.named] for step in steps]
        gpus, jobs = view.own_gpus(self.user), view.own_jobs(self.user)
        if gpus or jobs:
            missed.append(event("own", head(view, gpus=gpus, jobs=jobs)))
        if missed:
            self._queue.put_nowait(b"".join(missed))

    def take(self, frame: bytes, view: ClusterView) -> None:
        """Queue a new step. If the queue is full, drop its events and tell the viewer to begin
        anew."""
        if self._queue.qsize() < _QUEUE:
            self._queue.put_nowait(frame)
            return
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(event("reset", head(view)))


class Broadcaster:
    """Broadcaster of each step to all viewers."""

    def __init__(self) -> None:
        # A stream that nobody holds any longer is gone, closed or not.
        self._streams: weakref.WeakSet[EventStream] = weakref.WeakSet()

    def __len__(self) -> int:
        return sum(not stream.closed for stream in self._streams)

    def admit(self, user: str, most: int, most_each: int) -> None:
        """Check the limits for a new stream. Raises Unavailable if there are ``most`` streams,
        TooManyRequests if this person has ``most_each``."""
        open_ = [stream for stream in self._streams if not stream.closed]
        if len(open_) >= most:
            raise Unavailable("Too many live pages of this portal are open now.")
        if sum(stream.user == user for stream in open_) >= most_each:
            raise TooManyRequests(
                f"You already have {most_each} live pages open. Close some of them."
            )

    def add_stream(self, stream: EventStream) -> None:
        """Add a stream, which gets every step from now on."""
        self._streams.add(stream)

    def send(self, step: Step, view: ClusterView, items: Items) -> None:
        """Send a step to all streams."""
        own: dict[str, bytes] = {}
        for stream in list(self._streams):
            if stream.closed:
                continue
            if stream.user not in own:
                own[stream.user] = own_frame(view, items, stream.user)
            shared, theirs = step.frames[stream.named], own[stream.user]
            stream.take(shared + theirs if theirs else shared, view)

    def close(self) -> None:
        """End all streams: the service stops."""
        for stream in list(self._streams):
            stream.close()
